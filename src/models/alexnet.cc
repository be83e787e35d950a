#include "models/alexnet.h"

#include <torch/nn.h>

#include "models/dense.h"
#include "models/layers.h"

namespace tutti::models {
namespace {

namespace nn = torch::nn;

// What differs between the two forms.
struct Form {
  nn::Conv2dOptions first;
  nn::MaxPool2dOptions pool;
  std::int64_t side;  // of what the dense layers see
};

const Form kLarge = {nn::Conv2dOptions(0, 64, 11).stride(4).padding(2), nn::MaxPool2dOptions(3).stride(2), 6};
const Form kSmall = {nn::Conv2dOptions(0, 64, 3).stride(2).padding(1), nn::MaxPool2dOptions(2), 2};

nn::Conv2d padded(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  nn::Conv2d layer(nn::Conv2dOptions(in, out, kernel).padding(kernel / 2));
  return layer;
}

std::shared_ptr<Model> make(const Form& form, const ModelOptions& options) {
  auto first = form.first;
  nn::Sequential features(nn::Conv2d(first.in_channels(options.channels)), relu(),
                          nn::MaxPool2d(form.pool),                              //
                          padded(64, 192, 5), relu(), nn::MaxPool2d(form.pool),  //
                          padded(192, 384, 3), relu(),                           //
                          padded(384, 256, 3), relu(),                           //
                          padded(256, 256, 3), relu(), nn::MaxPool2d(form.pool));
  nn::Sequential classifier(nn::Dropout(), Dense(256 * form.side * form.side, 4096), relu(), nn::Dropout(),
                            Dense(4096, 4096), relu(), Dense(4096, options.classes));
  return std::make_shared<PooledClassifier>(features, form.side, classifier);
}

}  // namespace

ModelInfo alexnet() {
  return {.name = "alexnet",
          .summary = "five convolutions, three dense layers, for 224x224",
          .own = {.classes = 1000, .image_size = 224, .channels = 3},
          .least_image = 63,
          .parameters = 61'100'840,
          .flops_per_sample = 1'428'376'960,
          .data = "synthetic",
          .channels_last = true,
          .takes = image_fields,
          .build = [](const ModelOptions& o) { return make(kLarge, o); }};
}

ModelInfo alexnet_cifar() {
  return {.name = "alexnet-cifar",
          .summary = "AlexNet for 32x32: a 3x3 first layer and 2x2 pools",
          .own = {.classes = 10, .image_size = 32, .channels = 3},
          .least_image = 15,
          .parameters = 23'468'874,
          .flops_per_sample = 150'650'880,
          .data = "cifar10",
          .channels_last = true,
          .takes = image_fields,
          .build = [](const ModelOptions& o) { return make(kSmall, o); }};
}

}  // namespace tutti::models
