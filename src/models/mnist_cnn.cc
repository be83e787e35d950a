#include "models/mnist_cnn.h"

#include <torch/nn.h>

#include "models/layers.h"
#include "models/patch_conv.h"

namespace tutti::models {
namespace {

// The largest of four and then ReLU is ReLU and then the largest of four, to the bit, forward and backward,
// on a quarter of the elements.
torch::Tensor pool_and_relu(const torch::Tensor& x) {
  return torch::max_pool2d(x, 2).relu_();
}

// Of the image after three times a convolution and pooling.
std::int64_t last_side(std::int64_t size) {
  for (int layer = 0; layer < 3; ++layer) size = (size - 2) / 2;
  return size;
}

constexpr double conv_flops(double out, double in_channels, double out_channels) {
  return 2 * out * out * out_channels * in_channels * 9;
}

}  // namespace

MnistCnn::MnistCnn(const ModelOptions& options)
    : conv1_(register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(options.channels, 32, 3)))),
      conv2_(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 128, 3)))),
      conv3_(register_module("conv3", torch::nn::Conv2d(torch::nn::Conv2dOptions(128, 256, 3)))),
      dense1_(register_module(
          "dense1",
          torch::nn::Linear(256 * last_side(options.image_size) * last_side(options.image_size), 1000))),
      dense2_(register_module("dense2", torch::nn::Linear(1000, 100))),
      dense3_(register_module("dense3", torch::nn::Linear(100, options.classes))) {}

torch::Tensor MnistCnn::forward(torch::Tensor x) {
  x = pool_and_relu(conv1_(x));
  x = pool_and_relu(patch_conv2d(x, conv2_->weight, conv2_->bias));
  x = pool_and_relu(patch_conv2d(x, conv3_->weight, conv3_->bias));
  x = torch::dropout(x.flatten(1), 0.5, is_training());
  x = dense1_(x).relu_();
  x = dense2_(x).relu_();
  return dense3_(x);
}

ModelInfo mnist_cnn() {
  return {.name = "mnist-cnn",
          .summary = "study B's network: three convolutions, three dense layers",
          .own = {.classes = 10, .image_size = 28, .channels = 1},
          .least_image = 22,
          .parameters = 690'590,
          .flops_per_sample = conv_flops(26, 1, 32) + conv_flops(11, 32, 128) + conv_flops(3, 128, 256) +
                              2.0 * (256 * 1000 + 1000 * 100 + 100 * 10),
          .data = "fashion-mnist",
          .channels_last = true,
          .takes = image_fields,
          .build = std::make_shared<MnistCnn, const ModelOptions&>};
}

}  // namespace tutti::models
