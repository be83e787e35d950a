#include "train/summary.h"

#include <gtest/gtest.h>

namespace tutti::train {
namespace {

// Two workers, of which the second was slower and skipped more.
observe::Summary summary_of(bool skips_together) {
  Setup setup;
  setup.config.workers = 2;
  setup.first_step = 30;
  const RunPlan plan;
  const StepSeries series;
  const std::vector<RankReport> ranks = {
      {.rank = 0, .train_loss = 0.5, .steps = 10, .samples = 100, .seconds = 2, .skipped_steps = 3},
      {.rank = 1, .train_loss = 1.5, .steps = 10, .samples = 300, .seconds = 4, .skipped_steps = 4}};
  return make_summary({.setup = setup,
                       .plan = plan,
                       .series = series,
                       .steps = 40,
                       .words_a_sample = 7,
                       .skips_together = skips_together},
                      ranks);
}

TEST(Summary, RatesAreOfTheStepsMadeHereInTheTimeOfTheSlowest) {
  const auto s = summary_of(true);
  EXPECT_EQ(s.steps, 40);
  EXPECT_DOUBLE_EQ(s.steps_per_second, 2.5);
  EXPECT_DOUBLE_EQ(s.gradients_per_second, 5);
  EXPECT_DOUBLE_EQ(s.samples_per_second, 100);
  EXPECT_DOUBLE_EQ(s.words_per_second.value(), 700);
  EXPECT_DOUBLE_EQ(s.train_loss.value(), 1);
}

TEST(Summary, WhoSkippedStepsAloneIsNamedButForRankZeroWhichHasSaidSo) {
  const std::vector<RankReport> ranks = {{.rank = 0, .skipped_steps = 2, .first_skipped = "step 3"},
                                         {.rank = 1},
                                         {.rank = 3, .skipped_steps = 5, .first_skipped = "step 4: nan"}};
  EXPECT_EQ(who_skipped(ranks), std::vector<std::string>{"rank 3 skipped 5 steps; the first, step 4: nan"});
}

TEST(Summary, TellsOfDeadWorkersAndRestarts) {
  train::Setup setup;
  setup.restarts = {{.because = "rank 1 was killed", .from_step = 20}};
  const RunPlan plan;
  const StepSeries series;
  const auto s = make_summary(
      {.setup = setup, .plan = plan, .series = series, .parameters = 10, .dropped_workers = {Rank{2}}},
      {RankReport{}});
  EXPECT_EQ(s.dropped_workers, std::vector{2});
  EXPECT_EQ(s.restarts, 1);
  EXPECT_EQ(s.restart_causes, setup.restarts);
  EXPECT_EQ(s.parameter_bytes, 40);
}

TEST(Summary, TellsWhatWasMeasuredAndWhetherItWasEnough) {
  const train::Setup setup;
  const RunPlan plan;
  const StepSeries series;
  RunRecord run{.setup = setup, .plan = plan, .series = series};
  auto s = make_summary(run, {RankReport{}});
  EXPECT_EQ(s.test, observe::Summary{}.test) << "not evaluated";
  EXPECT_EQ(s.train_loss, std::nullopt) << "made no step";
  EXPECT_EQ(s.until, std::nullopt);

  run.evaluation = {.figures = {{"loss", 0.5}, {"perplexity", 20}}};
  run.target = {.figure = "loss", .value = 0.4, .small_is_good = true};
  s = make_summary(run, {RankReport{}});
  EXPECT_EQ(s.test, (decltype(s.test){{"accuracy", std::nullopt}, {"loss", 0.5}, {"perplexity", 20}}));
  EXPECT_EQ(s.until, (observe::Until{{"loss", 0.4}, false, std::nullopt}));
  run.seconds_to_target = 12.5;
  EXPECT_EQ(make_summary(run, {RankReport{}}).until, (observe::Until{{"loss", 0.4}, true, 12.5}));
}

TEST(Summary, StepsSkippedByAllCountOnceAndThoseOfEachWorkerAddUp) {
  EXPECT_EQ(summary_of(true).skipped_steps, 3);
  EXPECT_EQ(summary_of(false).skipped_steps, 7);
}

// The middle one of three.
TEST(Summary, ReportOfAWorkerHasTheMediansOfItsSteps) {
  const StepSeries series{.step = {9, 8, 7},
                          .compute = {1, 5, 3},
                          .exchange = {2, 6, 4},
                          .exposed = {0.1, 0.5, 0.3},
                          .finite_check = {0.01, 0.05, 0.03},
                          .loss = {4, 2, 1},
                          .samples = 30};
  const RankReport r = make_report(series, 2);
  EXPECT_DOUBLE_EQ(r.compute_ms, 3);
  EXPECT_DOUBLE_EQ(r.exchange_ms, 4);
  EXPECT_DOUBLE_EQ(r.exposed_exchange_ms, 0.3);
  EXPECT_DOUBLE_EQ(r.finite_check_ms, 0.03);
  EXPECT_DOUBLE_EQ(r.train_loss, 1.5) << "of the last epoch";
  EXPECT_EQ(r.steps, 3);
  EXPECT_EQ(r.samples, 30);
}

}  // namespace
}  // namespace tutti::train
