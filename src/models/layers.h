// What several networks share: their fields, their layers, and how their authors draw the first weights.
#pragma once

#include "models/model.h"

namespace tutti::models {

// A square image and its class.
std::vector<Field> image_fields(const ModelOptions& options);

// Features of an image, pooled to a square of `side`, then dense layers; named as torchvision names them.
class PooledClassifier final : public Classifier {
 public:
  PooledClassifier(torch::nn::Sequential features, std::int64_t side, torch::nn::Sequential classifier);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  torch::nn::Sequential features_;
  torch::nn::AdaptiveAvgPool2d avgpool_;
  torch::nn::Sequential classifier_;
};

// In place.
torch::nn::ReLU relu();

// Without a bias, and padded so that stride 1 keeps the size.
torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1,
                              std::int64_t groups = 1);

// He et al. 2015, by what leaves a layer: keeps the size of gradients through ReLUs. Biases begin at zero.
void draw_convolutions(torch::nn::Module& module);

// Normal with deviation 0.01. Biases begin at zero.
void draw_dense_layers(torch::nn::Module& module);

}  // namespace tutti::models
