#include "train/passes.h"

#include <torch/autograd.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "train/as_tensors.h"
#include "train/plan.h"
#include "train/precision.h"
#include "train/scoped_seed.h"

namespace tutti::train {

using observe::Lane;

Passes::Passes(PassesSetup setup) : setup_(std::move(setup)) {}

models::Batch Passes::tensors_of(const data::Batch& batch) const {
  return as_tensors(batch.fields, setup_.fields, batch.count, channels_last(setup_.config));
}

std::vector<Passes::Part> Passes::parts_of(const data::Batch& batch) {
  std::vector<Part> parts;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    const auto count = static_cast<std::int64_t>(batch.parts[i]);
    parts.push_back({i, first, count, i + 1 == batch.parts.size()});
    first += count;
  }
  return parts;
}

std::vector<models::Batch> Passes::cut(const models::Batch& whole, const Part& part) const {
  std::vector<models::Batch> pieces;
  for (std::int64_t done = 0; done < part.count; done += setup_.micro_batch) {
    pieces.emplace_back();
    for (const auto& field : whole) {
      pieces.back().push_back(
          field.narrow(0, part.first + done, std::min(setup_.micro_batch, part.count - done)));
    }
  }
  return pieces;
}

std::vector<models::Batch> Passes::micro_batches(const data::Batch& batch) const {
  const models::Batch whole = tensors_of(batch);
  std::vector<models::Batch> all;
  for (const Part& part : parts_of(batch)) {
    for (models::Batch& piece : cut(whole, part)) all.push_back(std::move(piece));
  }
  return all;
}

double Passes::run(const data::Batch& batch, const PassesListener& listener) {
  const models::Batch whole = tensors_of(batch);
  const auto parts = parts_of(batch);
  forwards_.assign(parts.size(), 0);
  losses_.assign(parts.size(), 0);
  for (std::size_t p = 0; p < setup_.phases.size(); ++p) {
    listener.begin_phase(p);
    setup_.in_turns != nullptr ? in_turns(p, whole, batch, listener)
                               : one_after_another(p, whole, batch, listener);
  }
  double sum = 0;
  for (const Part& part : parts) {
    if (part.count == 0) continue;
    sum += losses_[part.index] * (static_cast<double>(part.count) / static_cast<double>(batch.count));
  }
  return sum;
}

void Passes::one_after_another(std::size_t phase, const models::Batch& whole, const data::Batch& batch,
                               const PassesListener& listener) {
  for (const Part& part : parts_of(batch)) {
    if (listener.begin_part) listener.begin_part(phase);
    losses_[part.index] += in_micro_batches(
        setup_.phases[phase], whole, batch, part, [&](double loss) { listener.on_loss(phase, loss); },
        [](const torch::Tensor& loss) { loss.backward(); });
    if (listener.end_part) listener.end_part(phase, part.last);
  }
}

// All parts are in the midst of their passes at a time, so gradients cannot add up where they lie: each part
// keeps its own until all have ended, and they go to their places part by part.
void Passes::in_turns(std::size_t phase, const models::Batch& whole, const data::Batch& batch,
                      const PassesListener& listener) {
  const auto parts = parts_of(batch);
  const auto parameters = listener.parameters(phase);
  std::vector<std::vector<torch::Tensor>> gradients(parts.size());
  setup_.in_turns->run([&](std::size_t i) {
    const auto keep = [&](const torch::Tensor& loss) {
      auto more = torch::autograd::grad({loss}, parameters, /*grad_outputs=*/{}, /*retain_graph=*/{},
                                        /*create_graph=*/false, /*allow_unused=*/true);
      auto& sums = gradients[i];
      if (sums.empty()) return sums.swap(more);
      for (std::size_t g = 0; g < sums.size(); ++g) {
        if (more[g].defined()) sums[g] = sums[g].defined() ? sums[g] + more[g] : more[g];
      }
    };
    losses_[i] += in_micro_batches(
        setup_.phases[phase], whole, batch, parts[i], [&](double loss) { listener.on_loss(phase, loss); },
        keep);
  });
  const torch::NoGradGuard no_grad;
  for (const Part& part : parts) {
    for (std::size_t g = 0; g < parameters.size(); ++g) {
      const torch::Tensor& gradient = gradients[part.index][g];
      if (gradient.defined()) parameters[g].grad().add_(gradient);
    }
    gradients[part.index].clear();
    listener.end_part(phase, part.last);
  }
}

// One after the other. Their gradients add up where they lie; they are final in the last one of the last
// part.
double Passes::in_micro_batches(const models::Phase& phase, const models::Batch& whole,
                                const data::Batch& batch, const Part& part, const OnLoss& on_loss,
                                const Backward& backward) {
  double loss = 0;
  const auto pieces = cut(whole, part);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    accumulating_ = !part.last || i + 1 < pieces.size();
    const auto n = static_cast<double>(pieces[i].front().size(0));
    try {
      loss += forward_and_backward(phase, pieces[i], batch, part.index, on_loss, backward) * n /
              static_cast<double>(part.count);
    } catch (const c10::Error& e) {
      refuse_without_kernel(e, setup_.config.model);
      throw;
    }
  }
  return loss;
}

// What it draws follows from the step and the part, so that a resumed run draws what the undisturbed one
// drew, and a shard the same whoever computes it.
torch::Tensor Passes::forward(const models::Phase& phase, const models::Batch& samples, std::uint64_t step,
                              std::size_t part) {
  const auto& config = setup_.config;
  const auto number = static_cast<std::uint64_t>(setup_.first_part) + part;
  const auto seed = mix_seed({config.seed, step, number}) + forwards_[part]++;
  const ScopedSeed seeded(seed);
  const Autocast autocast(config.precision == "bf16");
  return phase.loss(samples);
}

double Passes::forward_and_backward(const models::Phase& phase, const models::Batch& samples,
                                    const data::Batch& batch, std::size_t part, const OnLoss& on_loss,
                                    const Backward& backward) {
  const auto begin = Clock::now();
  const torch::Tensor loss = forward(phase, samples, batch.step, part);
  const auto forward_done = Clock::now();
  setup_.trace.add(Lane::compute, "forward", begin, forward_done);
  const auto value = loss.item<double>();
  on_loss(value);
  // The mean of the parts' gradients shall be the gradient of the mean over all samples, also where the last
  // batch of an epoch is not shared evenly.
  const double weight =
      static_cast<double>(samples.front().size(0)) * setup_.parts / static_cast<double>(batch.global_count);
  backward(weight == 1.0 ? loss : loss * weight);
  setup_.trace.add(Lane::compute, "backward", forward_done, Clock::now());
  return value;
}

}  // namespace tutti::train
