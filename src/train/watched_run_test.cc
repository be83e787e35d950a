// Whole runs that are looked at from inside: which samples they used, what went through their steps, and one
// bit that is flipped there.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "base/xxh64.h"
#include "checkpoint/checkpoint.h"
#include "config/environment.h"
#include "data/bars_fixture.h"
#include "train/record_files.h"
#include "train/run_fixture.h"

namespace tutti::train {
namespace {

class WatchedRun : public ::testing::Test {
 protected:
  WatchedRun() { data::fixture::write_bars(folder_.path() / "data", "mnist", 300, 60); }

  config::TrainConfig config(const std::string& out, int workers,
                             const std::string& strategy = "allreduce") const {
    config::TrainConfig c;
    c.data = "mnist";
    c.strategy = strategy;
    c.workers = workers;
    c.global_batch = 24;
    c.steps = 3;
    c.threads = 1;
    c.bucket_bytes = 64 << 10;
    c.no_evaluate = true;
    c.out = (folder_.path() / out).string();
    return c;
  }

  train::Setup setup_of(const config::TrainConfig& c) const {
    return prepare(c, {{folder_.path() / "data"}, {}}, 1, "now").setup;
  }
  nlohmann::json train(const config::TrainConfig& c) const { return fixture::run(setup_of(c)).summary; }
  static nlohmann::json train_as(const train::Setup& setup) {
    return fixture::run(setup).summary["sample_ledger"];
  }

  // By key, of one step of one rank.
  static std::map<std::string, std::string> digests(const std::string& out, int rank, std::int64_t step) {
    std::ifstream lines(record_digests_path(out, rank));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json["step"] != step) continue;
      std::map<std::string, std::string> by_key;
      for (const auto& [key, digest] :
           json["digests"].get<std::vector<std::pair<std::string, std::string>>>())
        by_key[key] = digest;
      return by_key;
    }
    return {};
  }

  static std::vector<float> values(const checkpoint::SafetensorsFile& file, const std::string& key) {
    const auto& view = file.at(key);
    std::vector<float> numbers(static_cast<std::size_t>(view.elements()));
    std::memcpy(numbers.data(), view.bytes.data(), view.bytes.size());
    return numbers;
  }

  ScratchFolder folder_;
};

TEST_F(WatchedRun, UsesTheSameSamplesAtEveryNumberOfWorkersAndWhenItGoesOn) {
  auto c = config("one", 1, "local");
  c.steps = 20;  // an epoch has 13
  const auto ledger = train(c)["sample_ledger"];
  ASSERT_EQ(ledger.size(), 2U);
  EXPECT_EQ(ledger[0]["samples"], 300);
  EXPECT_EQ(ledger[1]["samples"], 7 * 24);
  EXPECT_FALSE(ledger[0]["partial"]);
  c.workers = 3;
  for (const char* strategy : {"allreduce", "ps-sync", "local-sgd"}) {
    c.strategy = strategy;
    c.out = (folder_.path() / strategy).string();
    EXPECT_EQ(train(c)["sample_ledger"], ledger) << strategy;
  }

  c = config("half", 2);
  c.steps = 8;  // in the midst of an epoch
  train(c);
  c.resume = c.out;
  c.steps = 20;
  const train::Setup rest = setup_of(c);
  EXPECT_EQ(train_as(rest), ledger);

  // What a checkpoint of an earlier version does not say cannot be known.
  auto unknown = rest;
  unknown.ledger.reset();
  unknown.config.out = (folder_.path() / "unknown").string();
  const auto partly = train_as(unknown);
  ASSERT_EQ(partly.size(), 2U);
  EXPECT_TRUE(partly[0]["partial"]);
  EXPECT_EQ(partly[0]["samples"], 300 - 8 * 24);
  EXPECT_EQ(partly[1], ledger[1]);
}

// Workers that do not keep step make as many gradients together, of whichever epochs.
TEST_F(WatchedRun, EveryGradientOfWorkersThatDoNotKeepStepIsCounted) {
  auto c = config("async", 2, "ps-async");
  const auto s = train(c);
  std::int64_t samples = 0;
  for (const auto& epoch : s["sample_ledger"]) samples += epoch["samples"].get<std::int64_t>();
  std::int64_t steps = 0;
  for (const auto& made : s["steps_per_worker"]) steps += made.get<std::int64_t>();
  EXPECT_EQ(samples, steps * 12);
}

TEST_F(WatchedRun, IsTheSameAsOneAtWhichNobodyLooks) {
  auto c = config("plain", 2);
  c.checkpoint_every = 1;
  const auto plain = train(c);
  c.out = (folder_.path() / "recorded").string();
  c.record_digests = true;
  c.record_step = 2;
  EXPECT_EQ(train(c)["parameters_sha256"], plain["parameters_sha256"]);

  // Gradients of both, and their mean, which both have.
  const checkpoint::SafetensorsFile first(record_step_path(c.out, 2, 0));
  const checkpoint::SafetensorsFile second(record_step_path(c.out, 2, 1));
  const auto a = values(first, "gradient/rank-0/conv2.weight");
  const auto b = values(second, "gradient/rank-1/conv2.weight");
  const auto mean = values(first, "mean/conv2.weight");
  EXPECT_EQ(values(second, "mean/conv2.weight"), mean);
  EXPECT_NE(a, b);
  for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_FLOAT_EQ(mean[i], (a[i] + b[i]) / 2) << i;

  // In row-major order, as checkpoints have them, of which there is one of this step.
  const auto saved = checkpoint::load(checkpoint::step_folder(c.out, 2));
  for (const int rank : {0, 1}) {
    const auto said = digests(c.out, rank, 2);
    for (const auto& tensor : saved.model.tensors()) {
      EXPECT_EQ(said.at("parameter/" + tensor.name), hex64(xxh64(tensor.bytes))) << tensor.name;
    }
    for (const auto& tensor : saved.optimizer->tensors()) {
      EXPECT_EQ(said.at("state/" + tensor.name), hex64(xxh64(tensor.bytes))) << tensor.name;
    }
    EXPECT_EQ(digests(c.out, rank, 0).size(), saved.model.tensors().size()) << "what it begins with";
  }
}

TEST_F(WatchedRun, RecordsAMeanOnlyWhereWorkersSeeOne) {
  for (const std::string strategy : {"ps-sync", "hybrid", "local-sgd"}) {
    auto c = config(strategy, 2, strategy);
    c.record_digests = true;
    train(c);
    const auto said = digests(c.out, 1, 3);
    EXPECT_TRUE(said.contains("gradient/rank-1/dense3.bias")) << strategy;
    EXPECT_TRUE(said.contains("parameter/dense3.bias")) << strategy;
    EXPECT_EQ(said.contains("mean/dense3.bias"), strategy == "hybrid") << strategy;
  }
}

TEST_F(WatchedRun, AFlippedBitIsWhereItWasAskedFor) {
  auto c = config("clean", 2);
  c.record_digests = true;
  train(c);
  const auto expect_first_in = [&](const std::string& flip, const std::string& key, int rank) {
    auto flipped = c;
    flipped.flip_bit = flip;
    flipped.out = (folder_.path() / flip).string();
    train(flipped);
    for (const int r : {0, 1}) EXPECT_EQ(digests(flipped.out, r, 1), digests(c.out, r, 1)) << "a step before";
    const auto mine = digests(flipped.out, rank, 2);
    const auto clean = digests(c.out, rank, 2);
    EXPECT_NE(mine.at(key), clean.at(key)) << flip;
    const auto others = digests(flipped.out, 1 - rank, 2);
    const bool own = key.starts_with("gradient");
    EXPECT_EQ(others == digests(c.out, 1 - rank, 2), !own) << flip << ": what the other one has";
    if (!own) {
      EXPECT_EQ(mine.at("gradient/rank-1/dense3.bias"), clean.at("gradient/rank-1/dense3.bias"));
    }
  };
  expect_first_in("1:2:dense3.bias:4:22:gradient", "gradient/rank-1/dense3.bias", 1);
  expect_first_in("1:2:dense3.bias:4:22", "mean/dense3.bias", 1);

  c.flip_bit = "0:2:dense3.bias:10:0";
  c.overwrite = true;
  EXPECT_THROW(train(c), ConfigError) << "it has ten elements";
}

TEST_F(WatchedRun, KeepsInItsCheckpointsWhatComputedIt) {
  auto c = config("computed", 1, "local");
  train(c);
  const auto arithmetic = checkpoint::load(checkpoint::step_folder(c.out, 3)).meta.at("arithmetic");
  std::vector<std::string> keys;
  for (const auto& [key, value] : arithmetic.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"device", "instructions", "kernels", "libtorch", "openblas",
                                            "precision", "processor", "threads"}));
  EXPECT_EQ(arithmetic["threads"], 1);
  EXPECT_EQ(arithmetic["device"], "cpu");
  EXPECT_EQ(arithmetic["kernels"], config::kernel_variables());
  // A BLAS that is there can be asked.
  std::ostringstream maps;
  maps << std::ifstream("/proc/self/maps").rdbuf();
  const bool has_openblas = maps.str().find("libopenblas") != std::string::npos;
  EXPECT_EQ(arithmetic["openblas"].get<std::string>().starts_with("OpenBLAS "), has_openblas) << arithmetic;
}

TEST_F(WatchedRun, EndsWhereItsReplicasDiffer) {
  auto c = config("checked", 3);
  c.check_replicas = 1;
  EXPECT_NO_THROW(train(c));
  c.overwrite = true;
  c.flip_bit = "2:2:dense3.bias:4:22";
  try {
    train(c);
    FAIL() << "nobody has noticed";
  } catch (const RunError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with(
        "step 2: the replicas differ: rank 2 is not as the other 2, first in dense3.bias"))
        << e.what();
  }
}

}  // namespace
}  // namespace tutti::train
