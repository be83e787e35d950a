#include "models/resnet.h"

#include <fmt/format.h>
#include <torch/nn.h>

#include <array>

#include "base/error.h"
#include "models/batch_norm.h"
#include "models/layers.h"

namespace tutti::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kExpansion = 4;

class Bottleneck final : public nn::Module {
 public:
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1_(register_module("conv1", convolution(in, width, 1))),
        bn1_(register_module("bn1", BatchNorm2d(width))),
        conv2_(register_module("conv2", convolution(width, width, 3, stride))),
        bn2_(register_module("bn2", BatchNorm2d(width))),
        conv3_(register_module("conv3", convolution(width, width * kExpansion, 1))),
        bn3_(register_module("bn3", BatchNorm2d(width * kExpansion))) {
    if (stride == 1 && in == width * kExpansion) return;
    downsample_ = register_module("downsample", nn::Sequential(convolution(in, width * kExpansion, 1, stride),
                                                               BatchNorm2d(width * kExpansion)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = bn1_(conv1_(x)).relu_();
    y = bn2_(conv2_(y)).relu_();
    y = bn3_(conv3_(y));
    return y.add_(downsample_ ? downsample_->forward(x) : x).relu_();
  }

 private:
  nn::Conv2d conv1_;
  BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  BatchNorm2d bn2_;
  nn::Conv2d conv3_;
  BatchNorm2d bn3_;
  nn::Sequential downsample_ = nullptr;
};

// Blocks of each stage.
std::array<int, 4> stages_of(int layers) {
  TUTTI_CHECK(layers == 50 || layers == 152, "{}", layers);
  return layers == 50 ? std::array{3, 4, 6, 3} : std::array{3, 8, 36, 3};
}

class ResNet final : public Classifier {
 public:
  ResNet(int layers, bool small_images, const ModelOptions& options)
      : small_images_(small_images),
        conv1_(register_module("conv1", small_images ? convolution(options.channels, 64, 3)
                                                     : convolution(options.channels, 64, 7, 2))),
        bn1_(register_module("bn1", BatchNorm2d(64))) {
    std::int64_t in = 64;
    std::int64_t width = 64;
    const auto stages = stages_of(layers);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      for (int i = 0; i < stages[s]; ++i) {
        layers_[s]->push_back(std::make_shared<Bottleneck>(in, width, i == 0 && s > 0 ? 2 : 1));
        in = width * kExpansion;
      }
      register_module(fmt::format("layer{}", s + 1), layers_[s]);
      width *= 2;
    }
    fc_ = register_module("fc", nn::Linear(in, options.classes));
    draw_convolutions(*this);
  }

  torch::Tensor forward(torch::Tensor images) override {
    torch::Tensor x = bn1_(conv1_(images)).relu_();
    if (!small_images_) x = torch::max_pool2d(x, 3, 2, 1);
    for (auto& layer : layers_) x = layer->forward(x);
    return fc_(x.mean({2, 3}));
  }

 private:
  const bool small_images_;
  nn::Conv2d conv1_;
  BatchNorm2d bn1_;
  std::array<nn::Sequential, 4> layers_;
  nn::Linear fc_ = nullptr;
};

}  // namespace

ModelInfo resnet(int layers) {
  const bool small = layers == 50;
  return {.name = small ? "resnet50" : "resnet152",
          .summary = small ? "16 bottleneck blocks, for 224x224" : "50 bottleneck blocks, for 224x224",
          .own = {.classes = 1000, .image_size = 224, .channels = 3},
          .least_image = 17,
          .parameters = small ? 25'557'032 : 60'192'808,
          .flops_per_sample = small ? 8'178'368'512.0 : 23'027'253'248.0,
          .data = "synthetic",
          .channels_last = true,
          .takes = image_fields,
          .build = [layers](const ModelOptions& o) { return std::make_shared<ResNet>(layers, false, o); }};
}

ModelInfo resnet_cifar(int layers) {
  const bool small = layers == 50;
  return {.name = small ? "resnet50-cifar" : "resnet152-cifar",
          .summary = small ? "ResNet50 for 32x32: a 3x3 first layer, no pool"
                           : "ResNet152 for 32x32: a 3x3 first layer, no pool",
          .own = {.classes = 10, .image_size = 32, .channels = 3},
          .least_image = 5,
          .parameters = small ? 23'520'842 : 58'156'618,
          .flops_per_sample = small ? 2'595'659'776.0 : 7'444'275'200.0,
          .data = "cifar10",
          .channels_last = true,
          .takes = image_fields,
          .build = [layers](const ModelOptions& o) { return std::make_shared<ResNet>(layers, true, o); }};
}

ModelInfo resnet50() {
  return resnet(50);
}

ModelInfo resnet152() {
  return resnet(152);
}

ModelInfo resnet50_cifar() {
  return resnet_cifar(50);
}

ModelInfo resnet152_cifar() {
  return resnet_cifar(152);
}

}  // namespace tutti::models
