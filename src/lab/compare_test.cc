#include "lab/compare.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/scratch_folder.h"
#include "base/version.h"
#include "report/cells_fixture.h"

namespace tutti::lab {
namespace {

namespace fs = std::filesystem;

TEST(Compare, LocalHasOneWorkerAndOthersAllOfThem) {
  CompareSpec spec;
  spec.base.out = "o";
  spec.strategies = {"local", "ring"};
  spec.workers = {1, 2, 3};
  const auto cells = plan_cells(spec);
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells[0].folder, "o/local-1");
  EXPECT_EQ(cells[1].folder, "o/ring-1");
  EXPECT_EQ(cells[3].folder, "o/ring-3");
  spec.strategies = {"nonsense"};
  EXPECT_THROW(plan_cells(spec), ConfigError);
}

TEST(Compare, ModelsAndRepeatsHaveFoldersOfTheirOwn) {
  CompareSpec spec;
  spec.base.out = "o";
  spec.strategies = {"ring", "ring"};
  spec.workers = {2};
  spec.models = {"mnist-cnn", "wide-deep"};
  spec.repeats = 2;
  const auto cells = plan_cells(spec);
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_EQ(cells[1].model, "wide-deep");
  EXPECT_EQ(cells[1].repeats[1].folder, "o/wide-deep-ring-2-repeat-2");
}

TEST(Compare, EnginesAreVariantsOfAStrategyAndOneWorkerNeedsNone) {
  CompareSpec spec;
  spec.base.out = "o";
  spec.strategies = {"local", "ring"};
  spec.workers = {1, 2};
  spec.engines = {"native", "auto"};
  const auto runs = plan_runs(spec);
  std::vector<std::string> folders;
  for (const auto& run : runs) folders.push_back(run.cell.folder);
  EXPECT_EQ(folders, (std::vector<std::string>{"o/local-1", "o/ring-1", "o/ring-native-2", "o/ring-auto-2"}));
  EXPECT_EQ(report::label_of(runs[3].cell), "ring, auto");
  EXPECT_EQ(runs[2].config.engine, "native");
  EXPECT_EQ(runs[3].config.engine, "auto");
  spec.engines = {"steam"};
  EXPECT_THROW(plan_runs(spec), ConfigError);
  spec.engines = {"native"};
  EXPECT_EQ(plan_runs(spec)[2].cell.folder, "o/ring-2") << "nothing to tell apart";
}

TEST(Compare, EachStrategyGetsTheSettingsThatItReads) {
  CompareSpec spec;
  spec.strategies = {"ps-sync", "ps-ssp", "hybrid", "easgd", "allreduce"};
  spec.workers = {3};
  spec.base.servers = 2;
  spec.base.backup_workers = 1;
  spec.base.staleness = 5;
  spec.base.partitions = "4";
  spec.base.sync_every = 7;
  spec.base.lr = 0.5;
  const config::TrainConfig defaults;
  const auto runs = plan_runs(spec);
  ASSERT_EQ(runs.size(), spec.strategies.size());
  for (const auto& [cell, c] : runs) {
    const bool sync = c.strategy == "ps-sync", ssp = c.strategy == "ps-ssp", rows = c.strategy == "hybrid";
    EXPECT_EQ(c.servers, sync || ssp || rows ? 2 : defaults.servers) << c.strategy;
    EXPECT_EQ(c.backup_workers, sync ? 1 : defaults.backup_workers) << c.strategy;
    EXPECT_EQ(c.staleness, ssp ? 5 : defaults.staleness) << c.strategy;
    EXPECT_EQ(c.partitions, sync || ssp || rows ? "4" : defaults.partitions) << c.strategy;
    EXPECT_EQ(c.sync_every, c.strategy == "easgd" ? 7 : defaults.sync_every) << c.strategy;
    EXPECT_EQ(c.lr, 0.5) << c.strategy;
  }
}

TEST(Compare, ReproducibleCellsCutOneGlobalBatchIntoTheSameShards) {
  CompareSpec spec;
  spec.strategies = {"local", "ring"};
  spec.workers = {1, 3, 12};
  spec.base.reproducible = true;
  spec.base.global_batch = 48;
  auto runs = plan_runs(spec);
  ASSERT_EQ(runs.size(), 4U);
  for (const auto& run : runs) EXPECT_EQ(run.config.shards, 16) << run.config.workers;
  spec.base.shards = 24;
  for (const auto& run : plan_runs(spec)) EXPECT_EQ(run.config.shards, 24) << "as it was told";

  spec.base.reproducible = false;
  spec.base.shards = 0;
  for (const auto& run : plan_runs(spec)) EXPECT_EQ(run.config.shards, 0);
}

TEST(Compare, ReproducibleCellsOfOtherWorkersNeedAGlobalBatch) {
  CompareSpec spec;
  spec.strategies = {"local", "ring"};
  spec.workers = {1, 2};
  spec.base.reproducible = true;
  try {
    plan_runs(spec);
    ADD_FAILURE() << "these do not do the same training";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("give --global-batch"), std::string::npos) << e.what();
  }
  spec.strategies = {"ps-sync", "ring"};
  spec.workers = {2};
  EXPECT_EQ(plan_runs(spec).size(), 2U) << "a batch a worker is the same for both";
  spec.strategies = {"local"};
  spec.workers = {1, 2};
  EXPECT_EQ(plan_runs(spec).size(), 1U) << "only one number of workers is left";
}

TEST(Compare, AFinishedRunIsTakenOnlyIfNothingHasChanged) {
  const ScratchFolder folder;
  const auto program = folder.path() / "program";
  write_file_atomically(program, std::string_view("old"));
  train::Setup setup;
  setup.config.out = folder.path().string();
  setup.data_sha256 = "a";
  EXPECT_TRUE(finished_run(setup, program).is_null());

  auto summary = report::fixture::summary(1);
  summary["config"] = setup.config;
  summary["data_sha256"] = "a";
  summary["version"] = kVersion;
  write_file_atomically(folder.path() / "summary.json", summary.dump());
  EXPECT_EQ(finished_run(setup, program), summary);

  auto other = setup;
  other.config.lr *= 2;
  EXPECT_TRUE(finished_run(other, program).is_null());
  other = setup;
  other.data_sha256 = "b";
  EXPECT_TRUE(finished_run(other, program).is_null());
  other = setup;
  other.model_sha256 = "c";
  EXPECT_TRUE(finished_run(other, program).is_null());
  fs::last_write_time(program, fs::last_write_time(folder.path() / "summary.json") + std::chrono::seconds(1));
  EXPECT_TRUE(finished_run(setup, program).is_null());
  fs::last_write_time(program, fs::last_write_time(folder.path() / "summary.json") - std::chrono::seconds(1));
  write_file_atomically(folder.path() / "summary.json", summary.dump().substr(0, 100));
  EXPECT_TRUE(finished_run(setup, program).is_null());
}

TEST(Compare, CellsThatDidNotDoTheSameAreDoubted) {
  auto cells = std::vector{report::fixture::cell("ring", 2, 1), report::fixture::cell("ps-sync", 2, 1),
                           report::fixture::cell("ps-async", 2, 1), report::fixture::cell("ring", 3, 1)};
  for (auto& c : cells) c.summary["initial_parameters_sha256"] = c.summary["samples_sha256"] = "a";
  cells[2].summary["samples_sha256"] = "b";  // workers that do not keep step use other samples
  cells[3].summary["samples_sha256"] = "c";  // and so do more of them
  verify(cells);
  for (const auto& c : cells) EXPECT_EQ(c.doubt, "") << c.strategy;

  cells[1].summary["samples_sha256"] = "d";
  cells[2].summary["replicas_sha256"][1] = "b";
  cells[3].summary["initial_parameters_sha256"] = "e";
  verify(cells);
  EXPECT_EQ(cells[0].doubt, "");
  EXPECT_EQ(cells[1].doubt, "used other samples than ring at 2 workers");
  EXPECT_EQ(cells[2].doubt, "its replicas differ");
  EXPECT_EQ(cells[3].doubt, "began with other weights than ring at 2 workers");
}

}  // namespace
}  // namespace tutti::lab
