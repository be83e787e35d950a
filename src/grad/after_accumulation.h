// A call from backward when a parameter's gradient is final.
#pragma once

#include <torch/torch.h>

#include <functional>

namespace tutti::grad {

// Calls `hook` on backward's thread each time a gradient has been accumulated into `parameter`, as long as
// the result is held.
std::shared_ptr<torch::autograd::Node> call_after_accumulation(const torch::Tensor& parameter,
                                                               std::function<void()> hook);

}  // namespace tutti::grad
