#include "models/unrolled_lstm.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/nn.h>

#include "base/error.h"

namespace tutti::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Of one step, samples x 4 cells: input, forget and new, then output.
struct Gates {
  explicit Gates(const Tensor& all)
      : cells(all.size(1) / 4),
        input_and_forget(all.narrow(1, 0, 2 * cells)),
        input(all.narrow(1, 0, cells)),
        forget(all.narrow(1, cells, cells)),
        fresh(all.narrow(1, 2 * cells, cells)),
        output(all.narrow(1, 3 * cells, cells)) {}

  std::int64_t cells;
  Tensor input_and_forget, input, forget, fresh, output;
};

// All steps' rows one under the other.
Tensor flat(const Tensor& sequence) {
  return sequence.flatten(0, 1);
}

class UnrolledLstm : public torch::autograd::Function<UnrolledLstm> {
 public:
  // `projection` is empty where outputs are as wide as cells.
  static Tensor forward(AutogradContext* ctx, const Tensor& inputs, const Tensor& from_input,
                        const Tensor& from_output, const Tensor& input_bias, const Tensor& output_bias,
                        const Tensor& projection) {
    const auto steps = inputs.size(0);
    const auto samples = inputs.size(1);
    const auto cells = from_output.size(0) / 4;
    const bool projected = projection.numel() > 0;
    const auto gates = torch::addmm(input_bias + output_bias, flat(inputs), from_input.t())
                           .view({steps, samples, 4 * cells});
    const auto states = torch::empty({steps, samples, cells}, inputs.options());
    const auto squashed = torch::empty_like(states);  // tanh of the states
    const auto hidden = torch::empty_like(states);    // before the projection
    const auto outputs =
        projected ? torch::empty({steps, samples, projection.size(0)}, inputs.options()) : hidden;
    for (std::int64_t t = 0; t < steps; ++t) {
      auto all = gates[t];
      if (t > 0) all.addmm_(outputs[t - 1], from_output.t());
      const Gates g(all);
      g.input_and_forget.sigmoid_();
      g.fresh.tanh_();
      g.output.sigmoid_();
      auto state = states[t];
      torch::mul_out(state, g.input, g.fresh);
      if (t > 0) state.addcmul_(g.forget, states[t - 1]);
      auto squashed_state = squashed[t];
      torch::tanh_out(squashed_state, state);
      auto cell = hidden[t];
      torch::mul_out(cell, g.output, squashed_state);
      if (projected) {
        auto output = outputs[t];
        torch::mm_out(output, cell, projection.t());
      }
    }
    ctx->save_for_backward(
        {inputs, from_input, from_output, projection, gates, states, squashed, hidden, outputs});
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto &inputs = saved[0], &from_input = saved[1], &from_output = saved[2], &projection = saved[3],
               &gates = saved[4], &states = saved[5], &squashed = saved[6], &hidden = saved[7],
               &outputs = saved[8];
    const auto steps = inputs.size(0);
    const bool projected = projection.numel() > 0;
    // Of the outputs; what comes back from the step after one is added to it.
    const auto d_outputs = gradients[0].clone(torch::MemoryFormat::Contiguous);
    const auto d_gates = torch::empty_like(gates);
    auto d_state = torch::zeros_like(states[0]);
    for (std::int64_t t = steps - 1; t >= 0; --t) {
      auto d_output = d_outputs[t];
      if (t + 1 < steps) d_output.addmm_(d_gates[t + 1], from_output);
      const auto d_hidden = projected ? d_output.mm(projection) : d_output;
      const Gates g(gates[t]);
      Gates d(d_gates[t]);
      d_state.add_(torch::tanh_backward(d_hidden * g.output, squashed[t]));
      torch::sigmoid_backward_out(d.output, d_hidden * squashed[t], g.output);
      torch::sigmoid_backward_out(d.input, d_state * g.fresh, g.input);
      torch::tanh_backward_out(d.fresh, d_state * g.input, g.fresh);
      if (t > 0) {
        torch::sigmoid_backward_out(d.forget, d_state * states[t - 1], g.forget);
        d_state.mul_(g.forget);
      } else {
        d.forget.zero_();  // it has forgotten nothing but zeros
      }
    }
    const auto all = flat(d_gates);
    const auto d_bias = all.sum(0);
    const auto d_from_output = steps > 1 ? flat(d_gates.slice(0, 1)).t().mm(flat(outputs.slice(0, 0, -1)))
                                         : torch::zeros_like(from_output);
    return {ctx->needs_input_grad(0) ? all.mm(from_input).view_as(inputs) : Tensor(),
            all.t().mm(flat(inputs)),
            d_from_output,
            d_bias,
            d_bias,
            projected ? flat(d_outputs).t().mm(flat(hidden)) : Tensor()};
  }
};

}  // namespace

Tensor unrolled_lstm(torch::nn::LSTM& lstm, const Tensor& inputs) {
  const auto& options = lstm->options;
  TUTTI_CHECK(
      options.num_layers() == 1 && !options.bidirectional() && options.bias() && !options.batch_first(),
      "an LSTM of one layer in one direction");
  if (!c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU)) {
    return std::get<0>(lstm(inputs));
  }
  auto weights = lstm->named_parameters();
  const auto* projection = weights.find("weight_hr_l0");
  return UnrolledLstm::apply(inputs, weights["weight_ih_l0"], weights["weight_hh_l0"], weights["bias_ih_l0"],
                             weights["bias_hh_l0"], projection != nullptr ? *projection : torch::empty(0));
}

}  // namespace tutti::models
