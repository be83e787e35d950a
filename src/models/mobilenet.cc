#include "models/mobilenet.h"

#include <torch/nn.h>

#include "models/batch_norm.h"
#include "models/layers.h"

namespace tutti::models {
namespace {

namespace nn = torch::nn;

// Convolution, batch norm, ReLU6.
class ConvNorm final : public nn::Module {
 public:
  ConvNorm(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1,
           std::int64_t groups = 1)
      : conv_(register_module("0", convolution(in, out, kernel, stride, groups))),
        norm_(register_module("1", BatchNorm2d(out))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = norm_(conv_(x));
    return torch::hardtanh_(y, 0, 6);
  }

 private:
  nn::Conv2d conv_;
  BatchNorm2d norm_;
};

class InvertedResidual final : public nn::Module {
 public:
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t expansion)
      : stays_(stride == 1 && in == out), conv_(register_module("conv", nn::Sequential())) {
    const std::int64_t wide = in * expansion;
    if (expansion != 1) conv_->push_back(std::make_shared<ConvNorm>(in, wide, 1));
    conv_->push_back(std::make_shared<ConvNorm>(wide, wide, 3, stride, wide));
    conv_->push_back(convolution(wide, out, 1));
    conv_->push_back(BatchNorm2d(out));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = conv_->forward(x);
    return stays_ ? x + y : y;
  }

 private:
  const bool stays_;
  nn::Sequential conv_;
};

// Blocks with the same number of channels; the stride is the first one's.
struct Stage {
  std::int64_t expansion, channels, blocks, stride;
};

constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr std::int64_t kLast = 1280;

class MobileNetV2 final : public Classifier {
 public:
  MobileNetV2(bool small_images, const ModelOptions& options)
      : features_(register_module("features", nn::Sequential())),
        classifier_(register_module("classifier",
                                    nn::Sequential(nn::Dropout(0.2), nn::Linear(kLast, options.classes)))) {
    std::int64_t in = 32;
    features_->push_back(std::make_shared<ConvNorm>(options.channels, in, 3, small_images ? 1 : 2));
    for (const Stage& stage : kStages) {
      const bool strided = stage.stride > 1 && !(small_images && stage.channels == 24);
      for (std::int64_t i = 0; i < stage.blocks; ++i) {
        features_->push_back(std::make_shared<InvertedResidual>(in, stage.channels, strided && i == 0 ? 2 : 1,
                                                                stage.expansion));
        in = stage.channels;
      }
    }
    features_->push_back(std::make_shared<ConvNorm>(in, kLast, 1));
    draw_convolutions(*features_);
    draw_dense_layers(*classifier_);
  }

  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor x = features_->forward(images);
    return classifier_->forward(x.mean({2, 3}));
  }

 private:
  nn::Sequential features_;
  nn::Sequential classifier_;
};

}  // namespace

ModelInfo mobilenetv2() {
  return {.name = "mobilenetv2",
          .summary = "17 inverted residual blocks, for 224x224",
          .own = {.classes = 1000, .image_size = 224, .channels = 3},
          .least_image = 17,
          .parameters = 3'504'872,
          .flops_per_sample = 601'548'544,
          .data = "synthetic",
          .channels_last = true,
          .takes = image_fields,
          .build = [](const ModelOptions& o) { return std::make_shared<MobileNetV2>(false, o); }};
}

ModelInfo mobilenetv2_cifar() {
  return {.name = "mobilenetv2-cifar",
          .summary = "MobileNetV2 for 32x32: stride 1 in the first layer and the first strided block",
          .own = {.classes = 10, .image_size = 32, .channels = 3},
          .least_image = 5,
          .parameters = 2'236'682,
          .flops_per_sample = 175'952'896,
          .data = "cifar10",
          .channels_last = true,
          .takes = image_fields,
          .build = [](const ModelOptions& o) { return std::make_shared<MobileNetV2>(true, o); }};
}

}  // namespace tutti::models
