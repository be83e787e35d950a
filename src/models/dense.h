// A dense layer whose weight's gradient is added up where it is kept.
//
// Autograd makes a gradient and then adds it to the one that is there. With a weight of hundreds of megabytes
// that is as many bytes again in every step, fresh from the kernel, written, read and added. Here the product
// that makes the gradient adds it.
#pragma once

#include <torch/nn.h>

namespace tutti::models {

// torch::nn::Linear by its names, first weights and values, for rows of samples. backward() adds to the
// weight's gradient where it has one, so torch::autograd::grad, which has its own place for it, does not see
// it then. Who waits for the weight's gradient is told as ever.
class DenseImpl final : public torch::nn::LinearImpl {
 public:
  using LinearImpl::LinearImpl;
  torch::Tensor forward(const torch::Tensor& x);
};
TORCH_MODULE(Dense);

}  // namespace tutti::models
