#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace tutti::optim {
namespace {

TEST(Schedule, WithoutScalingTheRateNeverChanges) {
  const WarmUp warm_up{.base_lr = 0.1, .workers = 8, .scale_lr = false, .steps = 5};
  for (const int step : {0, 1, 5, 1000}) EXPECT_EQ(scaled_lr(warm_up, step), 0.1);
}

TEST(Schedule, RisesLinearlyFromBaseToBaseTimesWorkers) {
  const WarmUp warm_up{.base_lr = 0.1, .workers = 8, .scale_lr = true, .steps = 4};
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 0), 0.1);
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 1), 0.275);
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 2), 0.45);
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 4), 0.8);
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 400), 0.8);
}

TEST(Schedule, NoWarmUpStepsStartsAtTheTarget) {
  EXPECT_DOUBLE_EQ(scaled_lr({.base_lr = 0.1, .workers = 4, .scale_lr = true, .steps = 0}, 0), 0.4);
}

TEST(Schedule, OneWorkerHasNothingToRiseTo) {
  const WarmUp warm_up{.base_lr = 0.1, .workers = 1, .scale_lr = true, .steps = 10};
  for (const int step : {0, 3, 10}) EXPECT_DOUBLE_EQ(scaled_lr(warm_up, step), 0.1);
}

}  // namespace
}  // namespace tutti::optim
