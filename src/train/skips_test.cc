#include "train/skips.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "models/model.h"

namespace tutti::train {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Normed final : models::Model {
  torch::nn::BatchNorm1d norm{register_module("norm", torch::nn::BatchNorm1d(3))};
  torch::Tensor loss(const models::Batch& batch) override { return norm->forward(batch.at(0)).mean(); }
  models::Score score(const models::Batch&) override { return {}; }
};

class SkipsTest : public ::testing::Test {
 protected:
  // A step whose samples are all this number, more or less.
  void step(double value) {
    guard_.begin_step(++step_);
    skips_.before_step(guard_);
    const torch::Tensor loss = model_.loss({torch::rand({4, 3}) + value});
    if (!guard_.loss(0, loss.item<double>())) guard_.skip();
    skips_.after_step(guard_, step_, Rank{2});
  }

  Normed model_;
  std::vector<float> gradients_ = std::vector<float>(64);
  grad::Buckets buckets_{model_, 1 << 20,
                         [this](std::size_t) { return std::as_writable_bytes(std::span(gradients_)); }};
  exchange::FiniteGuard guard_{buckets_, {exchange::OnNonFinite::skip, Rank{2}, 1}};
  state::Buffers buffers_{model_};
  std::vector<std::string> said_;
  Skips skips_{buffers_, nullptr, [this](std::string line) { said_.push_back(std::move(line)); }};
  std::int64_t step_ = 0;
};

TEST_F(SkipsTest, RunningStatisticsAreThoseBeforeTheStep) {
  step(1);
  const auto mean = model_.norm->running_mean.clone();
  step(kNaN);
  EXPECT_TRUE(torch::equal(model_.norm->running_mean, mean)) << model_.norm->running_mean;
  EXPECT_EQ(model_.norm->num_batches_tracked.item<std::int64_t>(), 1);
  step(2);
  EXPECT_FALSE(torch::equal(model_.norm->running_mean, mean));
  EXPECT_EQ(skips_.count(), 1);
  EXPECT_EQ(skips_.first(), "step 2: rank 2: the loss is nan");
  EXPECT_EQ(said_, std::vector<std::string>{"step 2: rank 2: the loss is nan; the step is skipped"});
}

TEST_F(SkipsTest, AHundredInARowEndTheRun) {
  for (int i = 0; i < 99; ++i) step(kNaN);
  step(1);
  for (int i = 0; i < 99; ++i) step(kNaN);
  try {
    step(kNaN);
    FAIL();
  } catch (const NonFinite& e) {
    EXPECT_EQ(std::string(e.what()),
              "step 200: rank 2: the loss is nan; 100 steps in a row were skipped, a smaller --lr may help");
  }
  EXPECT_EQ(skips_.count(), 199);
}

}  // namespace
}  // namespace tutti::train
