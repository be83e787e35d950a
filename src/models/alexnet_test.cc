#include "models/alexnet.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/flops_fixture.h"
#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

TEST(AlexNet, HasThePublishedParametersStagesAndOperations) {
  const torch::NoGradGuard no_grad;
  const auto model = make_model("alexnet");
  model->eval();
  EXPECT_EQ(count_parameters(*model), 61'100'840);
  const auto image = torch::randn({1, 3, 224, 224});
  EXPECT_EQ(pooled_shapes(*model, image), (std::vector<Shape>{{64, 27, 27}, {192, 13, 13}, {256, 6, 6}}));
  const auto flops = FlopCount::of([&] { EXPECT_EQ(scores(*model, image).sizes(), (Shape{1, 1000})); });
  EXPECT_EQ(flops, alexnet().flops_per_sample);
  EXPECT_NEAR(flops, 2 * 0.714e9, 2e6);
}

TEST(AlexNet, TakesTheLeastImageAndRefusesASmallerOne) {
  const torch::NoGradGuard no_grad;
  const auto model = alexnet().make({.classes = 3, .image_size = 63, .channels = 1});
  EXPECT_EQ(scores(*model, torch::randn({1, 1, 63, 63})).sizes(), (Shape{1, 3}));
  EXPECT_THROW(alexnet().make({.image_size = 62}), ConfigError);
}

torch::Tensor plain_small(const Model& model, torch::Tensor x) {
  const Plain plain(model);
  x = torch::max_pool2d(plain.convolve(x, "features.0", 2, 1).relu(), 2);
  x = torch::max_pool2d(plain.convolve(x, "features.3", 1, 2).relu(), 2);
  x = plain.convolve(x, "features.6", 1, 1).relu();
  x = plain.convolve(x, "features.8", 1, 1).relu();
  x = torch::max_pool2d(plain.convolve(x, "features.10", 1, 1).relu(), 2);
  x = plain.dense(x.flatten(1), "classifier.1").relu();
  x = plain.dense(x, "classifier.4").relu();
  return plain.dense(x, "classifier.6");
}

TEST(AlexNetForSmallImages, IsThePlainStackAndLearns) {
  torch::manual_seed(1);
  const auto model = make_model("alexnet-cifar");
  EXPECT_EQ(count_parameters(*model), 23'468'874);
  model->eval();
  const auto batch = random_images(alexnet_cifar(), {}, 4);
  EXPECT_EQ(pooled_shapes(*model, batch[0]), (std::vector<Shape>{{64, 8, 8}, {192, 4, 4}, {256, 2, 2}}));
  EXPECT_EQ(FlopCount::of([&] { scores(*model, batch[0]); }), 4 * alexnet_cifar().flops_per_sample);
  expect_close(scores(*model, batch[0]), plain_small(*model, batch[0]));
  expect_learns(*model, batch, 15, 0.5);
}

TEST(AlexNetForSmallImages, TakesTheLeastImageAndRefusesASmallerOne) {
  const auto model = alexnet_cifar().make({.image_size = 15});
  EXPECT_EQ(scores(*model, torch::randn({1, 3, 15, 15})).sizes(), (Shape{1, 10}));
  EXPECT_THROW(alexnet_cifar().make({.image_size = 14}), ConfigError);
}

}  // namespace
}  // namespace tutti::models
