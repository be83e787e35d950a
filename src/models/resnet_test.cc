#include "models/resnet.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/flops_fixture.h"
#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

std::vector<Shape> layer_shapes(Model& model, torch::Tensor x) {
  std::vector<Shape> shapes;
  for (const char* name : {"layer1", "layer2", "layer3", "layer4"}) {
    x = stage(model, name).forward(x);
    shapes.push_back(x.sizes().slice(1).vec());
  }
  return shapes;
}

void check_published(int layers, std::int64_t parameters, double multiply_adds) {
  const torch::NoGradGuard no_grad;
  const auto info = resnet(layers);
  const auto model = make_model(info.name);
  model->eval();
  EXPECT_EQ(count_parameters(*model), parameters);
  const auto flops = FlopCount::of([&] {
    EXPECT_EQ(scores(*model, torch::randn({1, 3, 224, 224})).sizes(), (Shape{1, 1000}));
  });
  EXPECT_EQ(flops, info.flops_per_sample);
  EXPECT_NEAR(flops, 2 * multiply_adds, 0.01e9);
  EXPECT_EQ(layer_shapes(*model, torch::randn({1, 64, 56, 56})),
            (std::vector<Shape>{{256, 56, 56}, {512, 28, 28}, {1024, 14, 14}, {2048, 7, 7}}));
}

TEST(ResNet50, HasThePublishedParametersStagesAndOperations) {
  check_published(50, 25'557'032, 4.089e9);
}

TEST(ResNet152, HasThePublishedParametersStagesAndOperations) {
  check_published(152, 60'192'808, 11.514e9);
}

TEST(ResNet, HasTorchvisionsNames) {
  const auto weights = resnet(50).make({.classes = 2})->named_parameters();
  EXPECT_EQ(weights["conv1.weight"].sizes(), (Shape{64, 3, 7, 7}));
  EXPECT_EQ(weights["layer1.0.conv1.weight"].sizes(), (Shape{64, 64, 1, 1}));
  EXPECT_EQ(weights["layer2.0.downsample.0.weight"].sizes(), (Shape{512, 256, 1, 1}));
  EXPECT_EQ(weights["layer4.2.bn3.bias"].sizes(), (Shape{2048}));
  EXPECT_EQ(weights["fc.weight"].sizes(), (Shape{2, 2048}));
}

TEST(ResNet, RefusesAnImageTooSmallToHalve) {
  EXPECT_THROW(resnet(50).make({.image_size = 16}), ConfigError);
  EXPECT_THROW(resnet_cifar(50).make({.image_size = 4}), ConfigError);
}

torch::Tensor plain_block(const Plain& plain, const torch::Tensor& x, const std::string& block,
                          std::int64_t stride) {
  auto y = plain.normalise(plain.convolve(x, block + ".conv1"), block + ".bn1").relu();
  y = plain.normalise(plain.convolve(y, block + ".conv2", stride, 1), block + ".bn2").relu();
  y = plain.normalise(plain.convolve(y, block + ".conv3"), block + ".bn3");
  const bool changes = plain.has(block + ".downsample.0");
  const auto down = block + ".downsample.";
  return (y + (changes ? plain.normalise(plain.convolve(x, down + "0", stride), down + "1") : x)).relu();
}

TEST(ResNetForSmallImages, HasThePlainBlocksAndLearns) {
  torch::manual_seed(1);
  const auto model = make_model("resnet50-cifar");
  EXPECT_EQ(count_parameters(*model), 23'520'842);
  const Plain plain(*model);
  {
    const torch::NoGradGuard no_grad;
    const auto x = torch::randn({2, 64, 6, 6});
    auto first = stage(*model, "layer1").begin();
    const auto widened = first->forward(x);
    expect_close(widened, plain_block(plain, x, "layer1.0", 1));
    expect_close((++first)->forward(widened), plain_block(plain, widened, "layer1.1", 1));
    expect_close(stage(*model, "layer2").begin()->forward(widened),
                 plain_block(plain, widened, "layer2.0", 2));
  }
  expect_learns(*model, random_images(resnet_cifar(50), {.image_size = 8}, 4), 12, 0.5);
}

TEST(ResNetForSmallImages, IsItsLayersOneAfterTheOther) {
  const torch::NoGradGuard no_grad;
  const auto model = make_model("resnet50-cifar");
  const auto images = torch::randn({2, 3, 32, 32});
  const Plain plain(*model);
  torch::Tensor x = plain.normalise(plain.convolve(images, "conv1", 1, 1), "bn1").relu();
  EXPECT_EQ(layer_shapes(*model, x),
            (std::vector<Shape>{{256, 32, 32}, {512, 16, 16}, {1024, 8, 8}, {2048, 4, 4}}));
  for (const char* name : {"layer1", "layer2", "layer3", "layer4"}) x = stage(*model, name).forward(x);
  torch::Tensor given;
  EXPECT_EQ(FlopCount::of([&] { given = scores(*model, images); }), 2 * resnet_cifar(50).flops_per_sample);
  expect_close(given, plain.dense(x.mean({2, 3}), "fc"));
}

TEST(ResNetForSmallImages, Has152Layers) {
  const torch::NoGradGuard no_grad;
  const auto model = make_model("resnet152-cifar");
  EXPECT_EQ(count_parameters(*model), 58'156'618);
  model->eval();
  EXPECT_EQ(FlopCount::of([&] {
              scores(*model, torch::randn({1, 3, 32, 32}));
            }),
            resnet_cifar(152).flops_per_sample);
}

}  // namespace
}  // namespace tutti::models
