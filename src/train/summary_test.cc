#include "train/summary.h"

#include <gtest/gtest.h>

namespace tutti::train {
namespace {

// Two workers, of which the second was slower and skipped more.
nlohmann::json summary_of(bool skips_together) {
  config::TrainConfig config;
  config.workers = 2;
  const RunPlan plan;
  const StepSeries series;
  const std::vector<RankReport> ranks = {
      {.rank = 0, .train_loss = 0.5, .steps = 10, .samples = 100, .seconds = 2, .skipped_steps = 3},
      {.rank = 1, .train_loss = 1.5, .steps = 10, .samples = 300, .seconds = 4, .skipped_steps = 4}};
  return make_summary({.config = config,
                       .plan = plan,
                       .series = series,
                       .first_step = 30,
                       .steps = 40,
                       .words_a_sample = 7,
                       .skips_together = skips_together},
                      ranks);
}

TEST(Summary, RatesAreOfTheStepsMadeHereInTheTimeOfTheSlowest) {
  const auto s = summary_of(true);
  EXPECT_EQ(s["steps"], 40);
  EXPECT_DOUBLE_EQ(s["steps_per_second"], 2.5);
  EXPECT_DOUBLE_EQ(s["gradients_per_second"], 5);
  EXPECT_DOUBLE_EQ(s["samples_per_second"], 100);
  EXPECT_DOUBLE_EQ(s["words_per_second"], 700);
  EXPECT_DOUBLE_EQ(s["train_loss"], 1);
}

TEST(Summary, StepsSkippedByAllCountOnceAndThoseOfEachWorkerAddUp) {
  EXPECT_EQ(summary_of(true)["skipped_steps"], 3);
  EXPECT_EQ(summary_of(false)["skipped_steps"], 7);
}

}  // namespace
}  // namespace tutti::train
