#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace tutti::optim {
namespace {

TEST(RateSchedule, WithoutScalingTheRateNeverChanges) {
  const WarmUp warm_up{.base_lr = 0.1, .growth = 8, .scale_lr = false, .steps = 5};
  for (const int step : {0, 1, 5, 1000}) EXPECT_EQ(scaled_lr(warm_up, step), 0.1);
}

TEST(RateSchedule, RisesLinearlyFromBaseToBaseTimesWorkers) {
  const WarmUp warm_up{.base_lr = 0.1, .growth = 8, .scale_lr = true, .steps = 4};
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 0), 0.1);
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 1), 0.275);
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 2), 0.45);
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 4), 0.8);
  EXPECT_DOUBLE_EQ(scaled_lr(warm_up, 400), 0.8);
}

TEST(RateSchedule, NoWarmUpStepsStartsAtTheTarget) {
  EXPECT_DOUBLE_EQ(scaled_lr({.base_lr = 0.1, .growth = 4, .scale_lr = true, .steps = 0}, 0), 0.4);
}

TEST(RateSchedule, OneWorkerHasNothingToRiseTo) {
  const WarmUp warm_up{.base_lr = 0.1, .growth = 1, .scale_lr = true, .steps = 10};
  for (const int step : {0, 3, 10}) EXPECT_DOUBLE_EQ(scaled_lr(warm_up, step), 0.1);
}

TEST(RateSchedule, DropsByGammaEverySoManySteps) {
  const RateSchedule s{.warm_up = {.base_lr = 0.4}, .decay = Decay::step, .drop_every = 10, .gamma = 0.5};
  EXPECT_DOUBLE_EQ(rate(s, 0), 0.4);
  EXPECT_DOUBLE_EQ(rate(s, 9), 0.4);
  EXPECT_DOUBLE_EQ(rate(s, 10), 0.2);
  EXPECT_DOUBLE_EQ(rate(s, 35), 0.05);
}

TEST(RateSchedule, CosineFallsFromTheRateToTheLeastAndStaysThere) {
  const RateSchedule s{.warm_up = {.base_lr = 0.4}, .decay = Decay::cosine, .end = 12, .min_lr = 0.1};
  EXPECT_DOUBLE_EQ(rate(s, 0), 0.4);
  EXPECT_NEAR(rate(s, 4), 0.1 + 0.3 * 0.75, 1e-12);  // (1 + cos 60 degrees) / 2
  EXPECT_NEAR(rate(s, 6), 0.25, 1e-12);
  EXPECT_NEAR(rate(s, 8), 0.1 + 0.3 * 0.25, 1e-12);
  EXPECT_DOUBLE_EQ(rate(s, 12), 0.1);
  EXPECT_DOUBLE_EQ(rate(s, 1000), 0.1);
}

TEST(RateSchedule, CosineBeginsAtTheEndOfTheWarmUp) {
  const WarmUp warm_up{.base_lr = 0.1, .growth = 4, .scale_lr = true, .steps = 4};
  const RateSchedule s{.warm_up = warm_up, .decay = Decay::cosine, .end = 14};
  for (const int step : {0, 1, 3}) EXPECT_DOUBLE_EQ(rate(s, step), scaled_lr(warm_up, step));
  EXPECT_DOUBLE_EQ(rate(s, 4), 0.4);
  EXPECT_NEAR(rate(s, 9), 0.2, 1e-12);
  EXPECT_EQ(rate(s, 14), 0);
}

TEST(RateSchedule, CosineThatEndsWithinTheWarmUpEndsThere) {
  const RateSchedule s{.warm_up = {.base_lr = 0.1, .growth = 2, .scale_lr = true, .steps = 5},
                       .decay = Decay::cosine,
                       .end = 3,
                       .min_lr = 0.01};
  EXPECT_DOUBLE_EQ(rate(s, 2), 0.14);
  EXPECT_DOUBLE_EQ(rate(s, 3), 0.01);
}

}  // namespace
}  // namespace tutti::optim
