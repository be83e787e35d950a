#include "lab/experiment.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/scratch_folder.h"
#include "base/version.h"
#include "report/cells_fixture.h"

namespace tutti::lab {
namespace {

namespace fs = std::filesystem;

// Keeps what it is told.
struct Told final : ExperimentView {
  void begin(std::size_t cell, std::size_t repeat) override {
    all.push_back(std::to_string(cell) + "." + std::to_string(repeat));
  }
  void line(const std::string& text) override { lines.push_back(text); }
  launch::Listener listener() override {
    return {[](Rank, bool, const std::string&) {}, [](Rank, const nlohmann::json&) {}};
  }
  void end(std::size_t, const std::string& what) override { all.back() += ": " + what; }

  std::vector<std::string> all;
  std::vector<std::string> lines;
};

class ExperimentTest : public ::testing::Test {
 protected:
  ExperimentTest() { write_file_atomically(program_, std::string_view("a program")); }

  Experiment experiment(const std::vector<std::string>& strategies, int repeats = 1) const {
    CompareSpec spec;
    spec.base.out = folder_;
    spec.base.data = "synthetic";
    spec.base.steps = 2;
    spec.strategies = strategies;
    spec.workers = {2};
    spec.repeats = repeats;
    return {folder_, plan_runs(spec), program_, [this](const config::TrainConfig& config) {
              ++prepared_;
              return train::prepare(config, {{}, {}}, 1, "now");
            }};
  }

  // Jobs whose run leaves a summary, or ends as `ends` says for its strategy.
  RunJob jobs(std::map<std::string, launch::Outcome> ends = {}) {
    return [this, ends](const launch::JobSpec& spec, const launch::Listener&) {
      const auto setup = spec.payload.get<train::Setup>();
      const auto& config = setup.config;
      ++runs_;
      if (const auto end = ends.find(config.strategy); end != ends.end()) return end->second;
      auto summary = report::fixture::summary(1);
      summary["config"] = config;
      summary["data_sha256"] = setup.data_sha256;
      summary["version"] = kVersion;
      write_file_atomically(fs::path(config.out) / "summary.json", summary.dump());
      return launch::Outcome{};
    };
  }

  ScratchFolder scratch_;
  const std::string folder_ = (scratch_.path() / "experiment").string();
  const std::string program_ = (scratch_.path() / "program").string();
  int runs_ = 0;
  mutable int prepared_ = 0;
};

TEST_F(ExperimentTest, RepeatsRunInTurnsAndARunThatFailsDoesNotStopTheOthers) {
  auto all = experiment({"ring", "allreduce"}, 2);
  Told told;
  EXPECT_FALSE(all.run(told, false, jobs({{"ring", {.exit_code = 1, .line = "rank 1 was lost"}}})));
  EXPECT_EQ(told.all, (std::vector<std::string>{"0.0: rank 1 was lost", "1.0: done", "1.1: done"}));
  EXPECT_EQ(all.cells()[0].failure, "rank 1 was lost");
  EXPECT_FALSE(all.cells()[1].summary.is_null());
  EXPECT_FALSE(all.well());
}

TEST_F(ExperimentTest, GoesOnAfterAnInterruptionWithWhatIsMissing) {
  Told told;
  const auto stopped = launch::Outcome{.exit_code = 130, .line = "interrupted", .interrupted_by = 2};
  auto first = std::make_unique<Experiment>(experiment({"ring", "allreduce"}));
  const auto interrupted = first->run(told, false, jobs({{"allreduce", stopped}}));
  ASSERT_TRUE(interrupted);
  EXPECT_EQ(interrupted->exit_code, 130);
  first.reset();

  runs_ = 0;
  auto second = experiment({"ring", "allreduce"});
  EXPECT_FALSE(second.run(told, false, jobs()));
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(told.lines, std::vector<std::string>{
                            "ring at 2 workers had finished with the same settings: taken as it is"});
  EXPECT_TRUE(second.well());
}

TEST_F(ExperimentTest, AgainRunsWhatHasFinished) {
  Told told;
  std::make_unique<Experiment>(experiment({"ring"}))->run(told, false, jobs());
  EXPECT_FALSE(experiment({"ring"}).run(told, true, jobs()));
  EXPECT_EQ(runs_, 2);
}

// Data of several gigabytes may be read for it.
TEST_F(ExperimentTest, PreparesARunOnceBesideTheFirstCheck) {
  Told told;
  auto all = std::make_unique<Experiment>(experiment({"ring", "allreduce"}));
  EXPECT_EQ(prepared_, 2);
  all->run(told, false, jobs());
  EXPECT_EQ(prepared_, 4);
}

TEST_F(ExperimentTest, ChecksEveryRunBeforeTheFirst) {
  EXPECT_THROW(experiment({"ring", "nonsense"}), ConfigError);
  EXPECT_FALSE(fs::exists(folder_));
  fs::create_directories(fs::path(folder_) / "somebody's");
  EXPECT_THROW(experiment({"ring"}), ConfigError);
}

}  // namespace
}  // namespace tutti::lab
