#include "models/sdss_dnn.h"

#include <gtest/gtest.h>

#include "models/flops_fixture.h"
#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

TEST(SdssDnn, IsThePlainStackAndLearns) {
  torch::manual_seed(1);
  const auto model = make_model("sdss-dnn");
  EXPECT_EQ(count_parameters(*model), 5 * 128 + 128 + 128 * 128 + 128 + 128 * 64 + 64 + 64 * 3 + 3);
  const Batch batch = {torch::randn({32, 5}), torch::randint(3, {32}, torch::kInt64)};
  const Plain plain(*model);
  auto x = batch[0];
  for (const char* layer : {"dense1", "dense2", "dense3"}) x = plain.dense(x, layer).relu();
  torch::Tensor given;
  EXPECT_EQ(FlopCount::of([&] { given = scores(*model, batch[0]); }), 32 * sdss_dnn().flops_per_sample);
  expect_close(given, plain.dense(x, "dense4"));
  expect_learns(*model, batch, 20, 0.95);
}

}  // namespace
}  // namespace tutti::models
