// Counts what libtorch computes, for tests: multiplications and additions of convolutions and matrix
// products.
#pragma once

#include <ATen/record_function.h>
#include <torch/nn.h>

#include <memory>
#include <string_view>

namespace tutti::models {

class FlopCount {
 public:
  // Of everything that `compute` calls on this thread.
  template <typename Compute>
  static double of(const Compute& compute) {
    counted() = 0;
    const auto handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true));
    compute();
    at::removeCallback(handle);
    return counted();
  }

 private:
  // What only the inputs tell, for when there is an output: newer versions have no inputs any more then.
  struct Convolution final : at::ObserverContext {
    explicit Convolution(double flops) : flops_per_output(flops) {}
    double flops_per_output;
  };

  static double& counted() {
    static thread_local double flops = 0;
    return flops;
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
    const std::string_view name = call.name();
    const auto first = name == "aten::addmm" ? 1U : 0U;
    if (first == 1 || name == "aten::mm") {
      const auto left = call.inputs()[first].toTensor();
      counted() += 2.0 * static_cast<double>(left.numel() * call.inputs()[first + 1].toTensor().size(1));
    }
    if (name != "aten::convolution") return nullptr;
    const auto weight = call.inputs()[1].toTensor();
    return std::make_unique<Convolution>(2.0 * static_cast<double>(weight.numel() / weight.size(0)));
  }

  static void end(const at::RecordFunction& call, at::ObserverContext* context) {
    if (context == nullptr) return;
    const double each = static_cast<const Convolution*>(context)->flops_per_output;
    counted() += each * static_cast<double>(call.outputs()[0].toTensor().numel());
  }
};

}  // namespace tutti::models
