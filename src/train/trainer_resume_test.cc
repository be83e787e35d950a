// Runs that go on from a checkpoint.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/diff.h"
#include "train/trainer_fixture.h"

namespace tutti::train {
namespace {

TEST_F(TrainerTest, ResumedRunEndsWithTheSameBitsAsAnUndisturbedOne) {
  auto c = config("whole");
  c.steps = 25;  // over the end of an epoch of 19 steps
  const auto whole = train_here(c);
  c.out = (folder_.path() / "half").string();
  c.steps = 10;
  train_here(c);
  c.resume = c.out;
  c.steps = 25;
  const auto again = fixture::run(prepare(c, {{folder_.path() / "data"}, {}}, 1, "now").setup);
  const auto& resumed = again.summary;
  EXPECT_EQ(resumed["parameters_sha256"], whole["parameters_sha256"]);
  EXPECT_DOUBLE_EQ(resumed["steps_per_second"], resumed["gradients_per_second"]) << "of the steps made here";
  EXPECT_TRUE(again.events.of<observe::Note>().empty()) << again.events.of<observe::Note>()[0].text;
  EXPECT_TRUE(checkpoint::diff(checkpoint::open_any(folder_.path() / "whole"),
                               checkpoint::open_any(folder_.path() / "half"))
                  .identical());
}

TEST_F(TrainerTest, ReplicasThatDifferAreAllSavedAndGoOnToTheSameBits) {
  for (const std::string strategy : {"local-sgd", "easgd"}) {
    auto c = config("whole-" + strategy, 3);
    c.strategy = strategy;
    c.steps = 20;
    c.sync_every = 4;
    const auto whole = train_here(c);
    c.out = (folder_.path() / ("half-" + strategy)).string();
    c.checkpoint_every = 5;  // between two synchronisations
    train_here(c);
    for (const std::int64_t step : {10, 15}) remove_tree(checkpoint::step_folder(c.out, step));
    remove_tree(checkpoint::step_folder(c.out, 20));
    ASSERT_EQ(checkpoint::latest(c.out)->step, 5);
    for (const int rank : {1, 2}) {
      EXPECT_TRUE(checkpoint::load_replica(checkpoint::latest(c.out)->path, rank)) << strategy << rank;
    }
    c.resume = c.out;
    EXPECT_EQ(train_here(c)["parameters_sha256"], whole["parameters_sha256"]) << strategy;
  }
}

TEST_F(TrainerTest, StoppedRunKeepsEveryWorkersOwnStatistics) {
  auto c = with_batch_norm("whole");
  const auto whole = train_here(c);
  c.out = (folder_.path() / "stopped").string();
  const auto setup = prepare(c, {{folder_.path() / "data"}, {}}, 1, "now").setup;
  const auto stopped =
      fixture::run(setup, [](const net::StatusBoard& board) { board.requests().ask(net::Request::stop); });
  EXPECT_TRUE(stopped.summary.is_null());
  ASSERT_EQ(checkpoint::latest(c.out)->step, 2) << "asked before the first step, decided after it";
  c.resume = c.out;
  const auto resumed = train_here(c);
  EXPECT_EQ(resumed["parameters_sha256"], whole["parameters_sha256"]);
  EXPECT_EQ(resumed["replicas_sha256"], whole["replicas_sha256"]);
}

TEST_F(TrainerTest, ResumedWorkersAllBeginWithTheSavedStatistics) {
  auto c = with_batch_norm("whole");
  c.checkpoint_every = 2;  // where all have the same
  const auto whole = train_here(c);
  for (const int step : {4, 5}) remove_tree(checkpoint::step_folder(c.out, step));
  ASSERT_EQ(checkpoint::latest(c.out)->step, 2);
  EXPECT_FALSE(checkpoint::load_replica(checkpoint::latest(c.out)->path, 1)) << "it would be rank 0's again";
  c.resume = c.out;
  EXPECT_EQ(train_here(c)["replicas_sha256"], whole["replicas_sha256"]);
}

TEST_F(TrainerTest, ResumingAnotherRunIsRefusedWithBothValues) {
  auto c = config("run");
  train_here(c);
  c.resume = c.out;
  c.steps = 20;
  c.batch = 8;
  try {
    train_here(c);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("batch 16, this one 8"), std::string::npos) << e.what();
  }
}

TEST_F(TrainerTest, DamagedCheckpointIsRefused) {
  auto c = config("run");
  train_here(c);
  const auto file = checkpoint::latest(c.out)->path / "model.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file_atomically(file, bytes);
  c.resume = c.out;
  c.steps = 20;
  EXPECT_THROW(train_here(c), DataError);
}

TEST_F(TrainerTest, ResumedRunForgetsWhatCameAfterItsCheckpoint) {
  auto c = config("run");
  train_here(c);
  const auto metrics = std::filesystem::path(c.out) / "metrics.jsonl";
  write_file_atomically(metrics, std::string_view("{\"step\":7}\n{\"step\":8}\n{\"step\":9}\n{\"step\":1"));
  c.resume = c.out;
  c.steps = 20;
  make_run_folder(prepare(c, {{folder_.path() / "data"}, {}}, 1, "now").setup);
  EXPECT_EQ(read_file(metrics), "{\"step\":7}\n{\"step\":8}\n");
}

}  // namespace
}  // namespace tutti::train
