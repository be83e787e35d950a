// The program with a learning rate that no network survives: what it says, and what it does not leave behind.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/checkpoint.h"
#include "cli/program_fixture.h"

namespace tutti {
namespace {

class NonFiniteProgram : public Program {
 protected:
  // One step makes parameters so large that the next forward pass overflows.
  std::vector<std::string> train(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"train", "--data",       "mnist", "--batch", "16",
                                    "--out", out().string(), "--lr",  "1e38",    "--optimizer",
                                    "sgd",   "--threads",    "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // That are no numbers, in all checkpoints.
  std::size_t none_in_checkpoints() const {
    std::size_t count = 0;
    for (const auto& listed : checkpoint::list(out())) {
      const auto loaded = checkpoint::load(listed.path);
      for (const auto& view : loaded.model.tensors()) {
        for (std::size_t at = 0; at + sizeof(float) <= view.bytes.size(); at += sizeof(float)) {
          float value = 0;
          std::memcpy(&value, view.bytes.data() + at, sizeof value);
          count += std::isfinite(value) ? 0 : 1;
        }
      }
    }
    return count;
  }

  // With one of these words.
  void expect_stopped(const std::vector<std::string>& flags, const std::vector<std::string>& words) {
    const Ended e = run(train(flags));
    EXPECT_EQ(e.code, 1) << flags[1] << e.error;
    EXPECT_EQ(std::ranges::count(e.error, '\n'), 1) << e.error;
    EXPECT_NE(e.error.find("rank "), std::string::npos) << e.error;
    EXPECT_TRUE(std::ranges::any_of(
        words, [&](const std::string& w) { return e.error.find(w) != std::string::npos; }))
        << flags[1] << e.error;
    EXPECT_NE(e.error.find("--on-nonfinite skip"), std::string::npos) << e.error;
    EXPECT_EQ(none_in_checkpoints(), 0U) << flags[1];
    EXPECT_FALSE(std::filesystem::exists(out() / "summary.json"));
    remove_tree(out());
  }

  std::string notes() const {
    std::istringstream lines(read_file(out() / "metrics.jsonl"));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json["event"] == "note") text += json["text"].get<std::string>() + "\n";
    }
    return text;
  }
};

TEST_F(NonFiniteProgram, AModelWhoseTestLossIsNoNumberIsNotSaved) {
  for (const char* strategy : {"local", "ps-sync"}) {
    expect_stopped({"--strategy", strategy, "--steps", "1"}, {": step 1: the test loss is "});
  }
  expect_stopped({"--strategy", "allreduce", "--workers", "2", "--steps", "1"},
                 {"step 1: the test loss is "});
}

TEST_F(NonFiniteProgram, EveryStrategyStopsAtALossThatIsNoNumber) {
  for (const char* strategy :
       {"allreduce", "ps-sync", "ps-async", "ps-ssp", "hybrid", "hogwild", "easgd", "local-sgd"}) {
    // Under hogwild another worker's step may fall between this one's forward and backward pass. Then its
    // gradient, not its loss, is the first that is none.
    std::vector<std::string> words = {"the loss is "};
    if (strategy == std::string_view("hogwild")) words.emplace_back("the gradient of ");
    expect_stopped({"--strategy", strategy, "--workers", "2", "--steps", "40", "--checkpoint-every", "1",
                    "--no-evaluate"},
                   words);
  }
  expect_stopped(
      {"--strategy", "ps-sync", "--workers", "2", "--steps", "40", "--transport", "tcp", "--colocate"},
      {"the loss is "});
}

TEST_F(NonFiniteProgram, SkippedStepsCountAndAreTold) {
  for (const char* strategy : {"allreduce", "ps-sync", "local-sgd"}) {
    const Ended e =
        run(train({"--strategy", strategy, "--workers", "2", "--steps", "6", "--on-nonfinite", "skip"}));
    ASSERT_EQ(e.code, 0) << strategy << e.error;
    const auto s = summary();
    const bool alone = std::string(strategy) == "local-sgd";
    EXPECT_EQ(s["skipped_steps"], alone ? 10 : 5) << strategy;
    EXPECT_EQ(s["steps"], 6);
    EXPECT_TRUE(s["test_loss"].is_null());
    const std::string said = notes();
    EXPECT_NE(said.find("step 2: rank 0: the loss is "), std::string::npos) << said;
    EXPECT_NE(said.find("the step is skipped"), std::string::npos) << said;
    EXPECT_EQ(said.find("rank 1 skipped 5 steps") != std::string::npos, alone) << said;
    EXPECT_NE(said.find("step 6: the test loss is "), std::string::npos) << said;
    EXPECT_EQ(none_in_checkpoints(), 0U);
    remove_tree(out());
  }
}

TEST_F(NonFiniteProgram, ARunThatOnlySkipsEnds) {
  const Ended e = run(train({"--strategy", "ps-async", "--workers", "2", "--steps", "400", "--no-evaluate",
                             "--on-nonfinite", "skip"}));
  EXPECT_EQ(e.code, 1) << e.error;
  EXPECT_NE(e.error.find("100 steps in a row were skipped"), std::string::npos) << e.error;
}

TEST_F(NonFiniteProgram, AHealthyRunSaysThatNothingWasSkippedAndWhatLookingCost) {
  ASSERT_EQ(run({"train", "--data", "mnist", "--batch", "16", "--out", out().string(), "--strategy",
                 "ps-sync", "--workers", "2", "--steps", "4", "--on-nonfinite", "skip"})
                .code,
            0);
  EXPECT_EQ(summary()["skipped_steps"], 0);
  EXPECT_GT(summary()["finite_check_ms"].get<double>(), 0);
}

TEST_F(NonFiniteProgram, WhatDoesNotFitIsRefused) {
  expect_refused(train({"--on-nonfinite", "nonsense"}), "--on-nonfinite");
  expect_refused(
      train({"--strategy", "ps-sync", "--workers", "2", "--local-aggregation", "--on-nonfinite", "skip"}),
      "--server-role sum");
}

}  // namespace
}  // namespace tutti
