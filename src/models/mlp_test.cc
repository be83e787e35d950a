#include "models/mlp.h"

#include <gtest/gtest.h>

#include "models/flops_fixture.h"
#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

TEST(Mlp, IsThePlainStackAndLearns) {
  torch::manual_seed(1);
  const auto model = make_model("mlp");
  EXPECT_EQ(count_parameters(*model), 5 * 64 + 64 + 64 * 64 + 64 + 64 * 3 + 3);
  const Batch batch = {torch::randn({32, 5}), torch::randint(3, {32}, torch::kInt64)};
  const Plain plain(*model);
  auto x = batch[0];
  for (const char* layer : {"dense1", "dense2"}) x = plain.dense(x, layer).relu();
  torch::Tensor given;
  EXPECT_EQ(FlopCount::of([&] { given = scores(*model, batch[0]); }), 32 * mlp().flops_per_sample);
  expect_close(given, plain.dense(x, "dense3"));
  expect_learns(*model, batch, 20, 0.95);
}

TEST(Mlp, IsAsWideAsItIsTold) {
  const auto model = make_model("mlp", {.classes = 7, .inputs = 11, .hidden = 13});
  EXPECT_EQ(count_parameters(*model), 11 * 13 + 13 + 13 * 13 + 13 + 13 * 7 + 7);
  EXPECT_EQ(mlp().fields({.classes = 7, .inputs = 11})[0].shape, std::vector<std::int64_t>{11});
}

}  // namespace
}  // namespace tutti::models
