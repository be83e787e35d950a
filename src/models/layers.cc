#include "models/layers.h"

#include <torch/nn.h>

namespace tutti::models {

namespace nn = torch::nn;

std::vector<Field> image_fields(const ModelOptions& options) {
  return {{"image", DType::f32, {options.channels, options.image_size, options.image_size}},
          {"label", DType::i64, {}, options.classes}};
}

PooledClassifier::PooledClassifier(nn::Sequential features, std::int64_t side, nn::Sequential classifier)
    : features_(register_module("features", std::move(features))),
      avgpool_(register_module("avgpool", nn::AdaptiveAvgPool2d(side))),
      classifier_(register_module("classifier", std::move(classifier))) {}

torch::Tensor PooledClassifier::forward(torch::Tensor images) {
  const torch::Tensor x = avgpool_(features_->forward(images));
  return classifier_->forward(x.flatten(1));
}

nn::ReLU relu() {
  nn::ReLU in_place(nn::ReLUOptions(true));
  return in_place;
}

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                       std::int64_t groups) {
  nn::Conv2d layer(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).groups(groups).bias(false));
  return layer;
}

void draw_convolutions(nn::Module& module) {
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (auto* layer = child->as<nn::Conv2dImpl>()) {
      nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
      if (layer->bias.defined()) nn::init::zeros_(layer->bias);
    }
  }
}

void draw_dense_layers(nn::Module& module) {
  for (const auto& child : module.modules(/*include_self=*/false)) {
    if (auto* layer = child->as<nn::LinearImpl>()) {
      nn::init::normal_(layer->weight, 0, 0.01);
      nn::init::zeros_(layer->bias);
    }
  }
}

}  // namespace tutti::models
