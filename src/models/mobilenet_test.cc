#include "models/mobilenet.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/flops_fixture.h"
#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

// Of what leaves each block that changes the number of channels or the size.
std::vector<Shape> stage_shapes(Model& model, torch::Tensor x) {
  std::vector<Shape> shapes;
  for (auto& layer : stage(model, "features")) {
    x = layer.forward(x);
    const auto shape = x.sizes().slice(1).vec();
    if (shapes.empty() || shapes.back() != shape) shapes.push_back(shape);
  }
  return shapes;
}

TEST(MobileNetV2, HasThePublishedParametersStagesAndOperations) {
  const torch::NoGradGuard no_grad;
  const auto model = make_model("mobilenetv2");
  model->eval();
  EXPECT_EQ(count_parameters(*model), 3'504'872);
  const auto image = torch::randn({1, 3, 224, 224});
  EXPECT_EQ(stage_shapes(*model, image), (std::vector<Shape>{{32, 112, 112},
                                                             {16, 112, 112},
                                                             {24, 56, 56},
                                                             {32, 28, 28},
                                                             {64, 14, 14},
                                                             {96, 14, 14},
                                                             {160, 7, 7},
                                                             {320, 7, 7},
                                                             {1280, 7, 7}}));
  const auto flops = FlopCount::of([&] { EXPECT_EQ(scores(*model, image).sizes(), (Shape{1, 1000})); });
  EXPECT_EQ(flops, mobilenetv2().flops_per_sample);
  EXPECT_NEAR(flops, 2 * 0.301e9, 2e6);
}

TEST(MobileNetV2, HasTorchvisionsNames) {
  const auto weights = mobilenetv2().make({.classes = 2})->named_parameters();
  EXPECT_EQ(weights["features.0.0.weight"].sizes(), (Shape{32, 3, 3, 3}));
  EXPECT_EQ(weights["features.1.conv.0.0.weight"].sizes(), (Shape{32, 1, 3, 3}));
  EXPECT_EQ(weights["features.1.conv.1.weight"].sizes(), (Shape{16, 32, 1, 1}));
  EXPECT_EQ(weights["features.2.conv.3.bias"].sizes(), (Shape{24}));
  EXPECT_EQ(weights["features.18.1.weight"].sizes(), (Shape{1280}));
  EXPECT_EQ(weights["classifier.1.weight"].sizes(), (Shape{2, 1280}));
}

TEST(MobileNetV2, RefusesAnImageTooSmallToHalve) {
  EXPECT_THROW(mobilenetv2().make({.image_size = 16}), ConfigError);
  EXPECT_THROW(mobilenetv2_cifar().make({.image_size = 4}), ConfigError);
}

torch::Tensor plain_conv_norm(const Plain& plain, const torch::Tensor& x, const std::string& layer,
                              std::int64_t stride = 1, std::int64_t padding = 0) {
  return plain.normalise(plain.convolve(x, layer + ".0", stride, padding), layer + ".1").clamp(0, 6);
}

torch::Tensor plain_block(const Plain& plain, const torch::Tensor& x, int index, std::int64_t stride) {
  const auto block = fmt::format("features.{}.conv.", index);
  const bool widens = plain.has(block + "1.0");
  auto y = widens ? plain_conv_norm(plain, x, block + "0") : x;
  y = plain_conv_norm(plain, y, block + (widens ? "1" : "0"), stride, 1);
  y = plain.convolve(y, block + (widens ? "2" : "1"));
  y = plain.normalise(y, block + (widens ? "3" : "2"));
  return y.sizes() == x.sizes() ? x + y : y;
}

TEST(MobileNetV2ForSmallImages, IsThePlainStackAndLearns) {
  torch::manual_seed(1);
  const auto model = make_model("mobilenetv2-cifar");
  EXPECT_EQ(count_parameters(*model), 2'236'682);
  const Plain plain(*model);
  const auto batch = random_images(mobilenetv2_cifar(), {}, 4);
  {
    const torch::NoGradGuard no_grad;
    auto x = plain_conv_norm(plain, batch[0], "features.0", 1, 1);
    for (int i = 1; i <= 17; ++i) x = plain_block(plain, x, i, i == 4 || i == 7 || i == 14 ? 2 : 1);
    EXPECT_EQ(x.sizes(), (Shape{4, 320, 4, 4}));
    x = plain_conv_norm(plain, x, "features.18");
    expect_close(stage(*model, "features").forward(batch[0]), x);
  }
  expect_learns(*model, batch, 20, 0.5);
  model->eval();
  EXPECT_EQ(FlopCount::of([&] { scores(*model, batch[0]); }), 4 * mobilenetv2_cifar().flops_per_sample);
}

}  // namespace
}  // namespace tutti::models
