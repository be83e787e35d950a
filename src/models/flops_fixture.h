// Counts what libtorch computes, for tests: multiplications and additions of convolutions and matrix
// products.
#pragma once

#include <ATen/record_function.h>
#include <torch/torch.h>

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
    return nullptr;
  }

  static void end(const at::RecordFunction& call, at::ObserverContext*) {
    if (std::string_view(call.name()) != "aten::convolution") return;
    const auto weight = call.inputs()[1].toTensor();
    const auto per_output = static_cast<double>(weight.numel() / weight.size(0));
    counted() += 2.0 * per_output * static_cast<double>(call.outputs()[0].toTensor().numel());
  }
};

}  // namespace tutti::models
