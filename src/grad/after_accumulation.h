// A call from backward when a parameter's gradient is final.
#pragma once

#include <torch/nn/module.h>

#include <functional>

namespace tutti::grad {

// While it lives, `hook` is called on backward's thread each time a gradient has been accumulated into the
// parameter, which wants gradients. Made and destroyed while no backward runs.
class AccumulationHook {
 public:
  AccumulationHook(const torch::Tensor& parameter, std::function<void()> hook);
  ~AccumulationHook();
  AccumulationHook(AccumulationHook&&) = default;
  AccumulationHook& operator=(AccumulationHook&&) = delete;

 private:
  // A parameter refers to its accumulator only weakly, and a hook goes with it; but a graph that somebody
  // keeps may hold it longer than we live.
  std::shared_ptr<torch::autograd::Node> accumulator_;
  std::shared_ptr<std::function<void()>> hook_;
};

}  // namespace tutti::grad
