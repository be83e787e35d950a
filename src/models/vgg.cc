#include "models/vgg.h"

#include <torch/nn.h>

#include <array>

#include "base/error.h"
#include "models/batch_norm.h"
#include "models/dense.h"
#include "models/layers.h"

namespace tutti::models {
namespace {

namespace nn = torch::nn;

constexpr std::array<std::int64_t, 5> kChannels = {64, 128, 256, 512, 512};

// Convolutions of each stage.
std::array<int, 5> stages_of(int layers) {
  TUTTI_CHECK(layers == 16 || layers == 19, "{}", layers);
  return layers == 16 ? std::array{2, 2, 3, 3, 3} : std::array{2, 2, 4, 4, 4};
}

nn::Sequential make_features(int layers, bool batch_norm, std::int64_t channels) {
  nn::Sequential features;
  const auto stages = stages_of(layers);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (int i = 0; i < stages[s]; ++i) {
      features->push_back(nn::Conv2d(nn::Conv2dOptions(channels, kChannels[s], 3).padding(1)));
      if (batch_norm) features->push_back(BatchNorm2d(kChannels[s]));
      // The largest of four and then ReLU is ReLU and then the largest of four, on a quarter of the elements.
      if (i + 1 == stages[s]) features->push_back(nn::MaxPool2d(2));
      features->push_back(relu());
      channels = kChannels[s];
    }
  }
  return features;
}

std::shared_ptr<Model> make(nn::Sequential features, std::int64_t side, nn::Sequential classifier) {
  draw_convolutions(*features);
  draw_dense_layers(*classifier);
  return std::make_shared<PooledClassifier>(std::move(features), side, std::move(classifier));
}

std::shared_ptr<Model> make_large(int layers, const ModelOptions& o) {
  return make(make_features(layers, /*batch_norm=*/false, o.channels), 7,
              nn::Sequential(Dense(512 * 7 * 7, 4096), relu(), nn::Dropout(), Dense(4096, 4096), relu(),
                             nn::Dropout(), Dense(4096, o.classes)));
}

std::shared_ptr<Model> make_small(int layers, const ModelOptions& o) {
  return make(make_features(layers, /*batch_norm=*/true, o.channels), 1,
              nn::Sequential(nn::Linear(512, o.classes)));
}

}  // namespace

ModelInfo vgg(int layers) {
  const bool small = layers == 16;
  return {.name = small ? "vgg16" : "vgg19",
          .summary = small ? "thirteen 3x3 convolutions, three dense layers, for 224x224"
                           : "sixteen 3x3 convolutions, three dense layers, for 224x224",
          .own = {.classes = 1000, .image_size = 224, .channels = 3},
          .least_image = 32,
          .parameters = small ? 138'357'544 : 143'667'240,
          .flops_per_sample = small ? 30'940'528'640.0 : 39'264'124'928.0,
          .data = "synthetic",
          .channels_last = true,
          .takes = image_fields,
          .build = [layers](const ModelOptions& o) { return make_large(layers, o); }};
}

ModelInfo vgg_cifar(int layers) {
  const bool small = layers == 16;
  return {.name = small ? "vgg16-cifar" : "vgg19-cifar",
          .summary = small ? "VGG16 for 32x32: batch norm, one dense layer"
                           : "VGG19 for 32x32: batch norm, one dense layer",
          .own = {.classes = 10, .image_size = 32, .channels = 3},
          .least_image = 32,
          .parameters = small ? 14'728'266 : 20'040'522,
          .flops_per_sample = small ? 626'403'328.0 : 796'272'640.0,
          .data = "cifar10",
          .channels_last = true,
          .takes = image_fields,
          .build = [layers](const ModelOptions& o) { return make_small(layers, o); }};
}

ModelInfo vgg16() {
  return vgg(16);
}

ModelInfo vgg19() {
  return vgg(19);
}

ModelInfo vgg16_cifar() {
  return vgg_cifar(16);
}

ModelInfo vgg19_cifar() {
  return vgg_cifar(19);
}

}  // namespace tutti::models
