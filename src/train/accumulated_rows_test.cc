// Rows of a table that come in several micro batches.
#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "train/run_fixture.h"

namespace tutti::train {
namespace {

// Whole tables take in one micro batch after another; rows must be added up in the same order.
TEST(AccumulatedRows, HaveTheBitsOfWholeTables) {
  const auto trained_by = [](const std::string& strategy, int servers, bool whole) {
    const ScratchFolder folder;
    config::TrainConfig c;
    c.model = "lstm-lm";
    c.data = "synthetic";
    c.vocabulary = 300;
    c.embedding = 4;
    c.hidden = 8;
    c.unroll = 4;
    c.sampled = 20;
    c.optimizer = "sgd";
    c.lr = 0.5;
    c.strategy = strategy;
    c.workers = 2;
    c.servers = servers;
    c.no_sparse = whole;
    c.global_batch = 64;
    c.accumulate = 4;
    c.steps = 3;
    c.reproducible = true;
    c.no_evaluate = true;
    c.out = folder.path() / "run";
    return fixture::run(prepare(c, {}, 1, "now").setup).summary.at("parameters_sha256");
  };
  const auto whole = trained_by("ring", 0, false);
  EXPECT_EQ(trained_by("ps-sync", 1, true), whole);
  EXPECT_EQ(trained_by("ps-sync", 1, false), whole);
}

}  // namespace
}  // namespace tutti::train
