#include "models/vgg.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/flops_fixture.h"
#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

const std::vector<Shape> kPublished = {
    {64, 112, 112}, {128, 56, 56}, {256, 28, 28}, {512, 14, 14}, {512, 7, 7}};

void check_published(int layers, std::int64_t parameters, double multiply_adds) {
  const torch::NoGradGuard no_grad;
  const auto info = vgg(layers);
  const auto model = make_model(info.name);
  model->eval();
  EXPECT_EQ(count_parameters(*model), parameters);
  const auto image = torch::randn({1, 3, 224, 224});
  std::vector<Shape> shapes;
  const auto flops = FlopCount::of([&] {
    shapes = pooled_shapes(*model, image);
    stage(*model, "classifier").forward(torch::randn({1, 512 * 7 * 7}));
  });
  EXPECT_EQ(shapes, kPublished);
  EXPECT_EQ(flops, info.flops_per_sample);
  EXPECT_NEAR(flops, 2 * multiply_adds, 0.01e9);
}

TEST(Vgg16, HasThePublishedParametersStagesAndOperations) {
  check_published(16, 138'357'544, 15.47e9);
}

TEST(Vgg19, HasThePublishedParametersStagesAndOperations) {
  check_published(19, 143'667'240, 19.632e9);
}

TEST(Vgg, RefusesAnImageThatPoolsAway) {
  EXPECT_THROW(vgg(16).make({.image_size = 31}), ConfigError);
  EXPECT_THROW(vgg_cifar(16).make({.image_size = 31}), ConfigError);
}

// Convolution, batch norm and ReLU as often as the names tell; a pool wherever an index is left out.
torch::Tensor plain_small(const Model& model, torch::Tensor x) {
  const Plain plain(model);
  for (int i = 0; x.size(2) > 1; ++i) {
    for (; plain.has(fmt::format("features.{}", i)); i += 3) {
      x = plain.convolve(x, fmt::format("features.{}", i), 1, 1);
      x = plain.normalise(x, fmt::format("features.{}", i + 1)).relu();
    }
    x = torch::max_pool2d(x, 2);
  }
  return plain.dense(x.flatten(1), "classifier.0");
}

TEST(VggForSmallImages, IsThePlainStackAndLearns) {
  torch::manual_seed(1);
  const auto model = make_model("vgg16-cifar");
  EXPECT_EQ(count_parameters(*model), 14'728'266);
  const auto batch = random_images(vgg_cifar(16), {}, 4);
  torch::Tensor given;
  EXPECT_EQ(FlopCount::of([&] { given = scores(*model, batch[0]); }), 4 * vgg_cifar(16).flops_per_sample);
  expect_close(given, plain_small(*model, batch[0]));
  expect_learns(*model, batch, 12, 0.5);
}

TEST(VggForSmallImages, Has19Layers) {
  const torch::NoGradGuard no_grad;
  const auto model = make_model("vgg19-cifar");
  EXPECT_EQ(count_parameters(*model), 20'040'522);
  const auto image = torch::randn({2, 3, 32, 32});
  EXPECT_EQ(FlopCount::of([&] { scores(*model, image); }), 2 * vgg_cifar(19).flops_per_sample);
  EXPECT_EQ(pooled_shapes(*model, image),
            (std::vector<Shape>{{64, 16, 16}, {128, 8, 8}, {256, 4, 4}, {512, 2, 2}, {512, 1, 1}}));
}

}  // namespace
}  // namespace tutti::models
