#include "models/mnist_cnn.h"

#include "models/patch_conv.h"

namespace tutti::models {
namespace {

// The largest of four and then ReLU is ReLU and then the largest of four, to the bit, forward and backward,
// on a quarter of the elements.
torch::Tensor pool_and_relu(const torch::Tensor& x) {
  return torch::max_pool2d(x, 2).relu_();
}

}  // namespace

MnistCnn::MnistCnn()
    : conv1_(register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 32, 3)))),
      conv2_(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 128, 3)))),
      conv3_(register_module("conv3", torch::nn::Conv2d(torch::nn::Conv2dOptions(128, 256, 3)))),
      dense1_(register_module("dense1", torch::nn::Linear(256, 1000))),
      dense2_(register_module("dense2", torch::nn::Linear(1000, 100))),
      dense3_(register_module("dense3", torch::nn::Linear(100, 10))) {}

torch::Tensor MnistCnn::forward(torch::Tensor x) {
  x = pool_and_relu(conv1_(x));
  x = pool_and_relu(patch_conv2d(x, conv2_->weight, conv2_->bias));
  x = pool_and_relu(patch_conv2d(x, conv3_->weight, conv3_->bias));
  x = torch::dropout(x.flatten(1), 0.5, is_training());
  x = dense1_(x).relu_();
  x = dense2_(x).relu_();
  return dense3_(x);
}

}  // namespace tutti::models
