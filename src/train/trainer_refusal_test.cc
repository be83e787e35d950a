// What a run refuses, and in which words.
#include <gtest/gtest.h>

#include "base/error.h"
#include "train/trainer_fixture.h"

namespace tutti::train {
namespace {

TEST_F(TrainerTest, BadInputIsRefusedBeforeAnythingIsWritten) {
  const auto expect_refused = [&](auto change, const char* word) {
    auto c = config("refused");
    change(c);
    try {
      prepare(c, {{folder_.path() / "data"}, {}}, 1, "now");
      ADD_FAILURE() << word;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "refused")) << word;
  };
  expect_refused([](auto& c) { c.model = "nonsense"; }, "nonsense");
  expect_refused([](auto& c) { c.strategy = "nonsense"; }, "nonsense");
  expect_refused([](auto& c) { c.optimizer = "nonsense"; }, "nonsense");
  expect_refused([](auto& c) { c.data = "nonsense"; }, "nonsense");
  expect_refused([](auto& c) { c.data = "fashion-mnist"; }, "fashion-mnist");
  expect_refused([](auto& c) { c.workers = 0; }, "--workers");
  expect_refused([](auto& c) { c.workers = 2; }, "local");
  expect_refused([](auto& c) { c.batch = 301; }, "larger than the data");
  expect_refused([](auto& c) { c.until = "perplexity=9"; }, "it has: loss, accuracy, top5");
  expect_refused([](auto& c) { c.resume = "/no/such/run"; }, "/no/such/run");
  const auto aggregated = [](const char* strategy, int backup_workers) {
    return [=](auto& c) {
      c.strategy = strategy;
      c.workers = 4;
      c.local_aggregation = true;
      c.backup_workers = backup_workers;
    };
  };
  expect_refused(aggregated("ps-async", 0),
                 "--local-aggregation is for ps-sync; --strategy ps-async does not read it");
  expect_refused(aggregated("ps-sync", 1), "--local-aggregation does not fit --backup-workers");
  expect_refused([](auto& c) { c.sync_every = 5; },
                 "--sync-every 5 is for easgd, local-sgd; --strategy local");
  const auto colocated = [](int servers) {
    return [servers](auto& c) {
      c.strategy = "ps-sync";
      c.workers = 2;
      c.colocate = true;
      c.servers = servers;
    };
  };
  expect_refused(colocated(1), "--colocate puts a server into each of 2 workers, not 1");
  auto fits = config("fits");
  colocated(2)(fits);
  EXPECT_EQ(prepare(fits, {{folder_.path() / "data"}, {}}, 1, "now").setup.config.servers, 2);
}

TEST_F(TrainerTest, RunFolderThatCannotBeWrittenIsRefused) {
  EXPECT_THROW(make_run_folder({.config = config("/proc/nothing")}), ConfigError);
}

TEST_F(TrainerTest, DamagedDataNamesTheFileTheUserKnows) {
  const auto labels = folder_.path() / "data" / "mnist" / "train-labels-idx1-ubyte";
  std::string bytes = read_file(labels);
  bytes[20] = 77;
  write_file_atomically(labels, bytes);
  try {
    prepare(config("refused"), {{folder_.path() / "data"}, {}}, 1, "now");
    FAIL();
  } catch (const DataError& e) {
    EXPECT_NE(std::string(e.what()).find("train-labels-idx1-ubyte"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("20"), std::string::npos) << e.what();
  }
}

TEST_F(TrainerTest, SynchronisedBatchNormNeedsWorkersThatKeepStep) {
  auto c = config("run", 2);
  c.model = "resnet50-cifar";
  c.strategy = "ps-async";
  c.sync_batchnorm = true;
  const auto prepare_here = [&] { prepare(c, {{folder_.path() / "data"}, {}}, 1, "now"); };
  EXPECT_THROW(prepare_here(), ConfigError);
  c.strategy = "allreduce";
  EXPECT_NO_THROW(prepare_here());
  c.workers = 7;
  c.batch = 1;  // 300 samples are 42 steps and 6 samples for 7 workers
  EXPECT_THROW(prepare_here(), ConfigError);
}

TEST_F(TrainerTest, OnlyImagesAreAugmented) {
  auto c = config("run");
  c.crop = true;
  c.cutout = 4;
  EXPECT_LT(train_here(c)["train_loss"].get<double>(), 3);
  c.model = "sdss-dnn";
  c.data = "synthetic";
  EXPECT_THROW(train_here(c), ConfigError);
}

}  // namespace
}  // namespace tutti::train
