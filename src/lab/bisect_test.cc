#include "lab/bisect.h"

#include <gtest/gtest.h>

namespace tutti::lab {
namespace {

// But for what a run is asked to keep and to say, and how long it is, all stays.
TEST(ReplayOf, ChangesNothingThatDecidesAboutBits) {
  config::TrainConfig run;
  run.workers = 3;
  run.seed = 7;
  run.epochs = 9;
  run.checkpoint_every = 5;
  run.evaluate_every = 2;
  run.flip_bit = "0:1:w:0:0";
  run.resume = "auto";
  run.out = "there";
  run.until = "accuracy=0.9";
  run.restarts = 4;
  run.check_replicas = 1;
  run.trace = run.tensorboard = run.overwrite = true;
  auto expected = run;
  expected.epochs = 0;
  expected.steps = 12;
  expected.resume = "runs/a/checkpoints/step-10";
  expected.out = "here";
  expected.until = "";
  expected.restarts = 0;
  expected.check_replicas = 0;
  expected.trace = expected.tensorboard = expected.overwrite = false;
  EXPECT_EQ(replay_of(run, "runs/a/checkpoints/step-10", 12, "here"), expected);
  // Evaluations between epochs are when statistics are averaged; after epochs they are averaged anyway.
  run.evaluate_every = 0;
  EXPECT_TRUE(replay_of(run, {}, 12, "here").no_evaluate);
  EXPECT_EQ(replay_of(run, {}, 12, "here").resume, "") << "from the beginning";
}

TEST(ReplayOf, TakesWhatNeedsNoMpirun) {
  config::TrainConfig run;
  run.transport = run.engine = "mpi";
  const auto again = replay_of(run, {}, 12, "here");
  EXPECT_EQ(again.transport, "tcp") << "by messages, as then";
  EXPECT_EQ(again.engine, "native");
}

TEST(Bisection, IsSaidInLinesAndAsJson) {
  const Bisection same{.identical = true, .equal_until = 6};
  EXPECT_EQ(render(same), "identical up to step 6\n");
  EXPECT_EQ(nlohmann::json(same)["identical"], true);

  Bisection found{.settings = {"seed: 1 against 2"}, .equal_until = 4, .differ_from = 6};
  found.place = Place{.step = 5, .stage = "mean", .tensor = "conv.weight", .who = {"rank-1"}};
  found.side = "the mean";
  found.element = ElementDifference{.element = 4,
                                    .index = "[1, 1]",
                                    .first = "nan",
                                    .second = "1",
                                    .ulps = std::nullopt,
                                    .differing = 2,
                                    .elements = 6};
  EXPECT_EQ(render(found),
            "setting    seed: 1 against 2\n"
            "same       checkpoints up to step 4\n"
            "step       5\n"
            "side       the mean\n"
            "tensor     conv.weight\n"
            "element    [1, 1] (number 4): nan against 1, no distance; 2 of 6 elements differ\n");
  found.arithmetic = {"libtorch: \"2.6\" against \"2.7\""};
  EXPECT_TRUE(
      render(found).ends_with("likely     computed with another libtorch: \"2.6\" against \"2.7\"\n"));
  const nlohmann::json json = found;
  EXPECT_EQ(json["arithmetic"].size(), 1U);
  EXPECT_EQ(json["step"], 5);
  EXPECT_EQ(json["who"], nlohmann::json({"rank-1"}));
  EXPECT_TRUE(json["ulps"].is_null());
  EXPECT_EQ(json["values"], nlohmann::json({"nan", "1"}));
}

}  // namespace
}  // namespace tutti::lab
