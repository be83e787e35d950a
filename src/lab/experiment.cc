#include "lab/experiment.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "observe/summary.h"

namespace tutti::lab {

Experiment::Experiment(std::string folder, std::vector<PlannedRun> runs, std::string program, Prepare prepare)
    : folder_(std::move(folder)),
      program_(std::move(program)),
      prepare_(std::move(prepare)),
      lock_(train::FolderLock::take_if_there(folder_)) {
  require_experiment();
  for (auto& run : runs) {
    cells_.push_back(std::move(run.cell));
    configs_.push_back(std::move(run.config));
  }
  // All of them first: an hour of runs shall not end in a typing error. Nothing of it is kept, because that
  // would be the data of all cells in memory at a time.
  for (std::size_t i = 0; i < cells_.size(); ++i) this->prepare(i, 0);
}

// compare.json is written first, so that it marks the folder.
void Experiment::require_experiment() const {
  namespace fs = std::filesystem;
  std::error_code missing;
  if (fs::exists(path(), missing)) return;
  for (const auto& entry : fs::directory_iterator(folder_, missing)) {
    if (entry.path().filename() == train::kLockFile) continue;
    throw ConfigError(
        fmt::format("--out {}: not empty, and not a comparison's (it has no compare.json); choose another "
                    "folder",
                    folder_));
  }
}

std::optional<launch::Outcome> Experiment::run(ExperimentView& view, bool again, const RunJob& run_job) {
  if (!lock_) lock_ = train::FolderLock::take(folder_);
  require_experiment();
  if (!std::filesystem::exists(path())) save();
  std::size_t repeats = 0;
  for (const auto& cell : cells_) repeats = std::max(repeats, cell.repeats.size());
  // In turns, so that what the machine does meanwhile falls on all of them.
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!cells_[i].failure.empty() || repeat >= cells_[i].repeats.size()) continue;
      view.begin(i, repeat);
      auto prepared = prepare(i, repeat);
      if (!again && take_finished(i, repeat, prepared.setup)) {
        view.line(name_of(cells_[i]) + " had finished with the same settings: taken as it is");
        view.end(i, "done");
        continue;
      }
      auto ended = run_one(i, repeat, prepared, view, run_job);
      if (ended.interrupted_by != 0) return ended;
      view.end(i, ended.exit_code == 0 ? "done" : ended.line);
    }
  }
  return std::nullopt;
}

train::Prepared Experiment::prepare(std::size_t cell, std::size_t repeat) const {
  auto config = configs_[cell];
  config.out = cells_[cell].repeats[repeat].folder;
  config.overwrite = true;  // the experiment's own
  return prepare_(config);
}

bool Experiment::take_finished(std::size_t i, std::size_t repeat, const train::Setup& resolved) {
  auto& cell = cells_[i];
  auto finished = finished_run(resolved, program_);
  if (finished.is_null()) return false;
  cell.repeats[repeat].summary = std::move(finished);
  report::take_median_repeat(cell);
  save();
  return true;
}

launch::Outcome Experiment::run_one(std::size_t i, std::size_t repeat, train::Prepared& prepared,
                                    ExperimentView& view, const RunJob& run_job) {
  auto& cell = cells_[i];
  auto ended = run_training(prepared, program_, view.listener(), pause_unless_interrupted, run_job);
  if (ended.interrupted_by != 0) return ended;
  if (ended.exit_code != 0) {
    cell.failure = ended.line;
    cell.summary = nullptr;
  } else {
    cell.repeats[repeat].summary = observe::read_summary_json(cell.repeats[repeat].folder);
    report::take_median_repeat(cell);
  }
  save();
  return ended;
}

// After each run, so that what an interrupted experiment leaves can be looked at.
void Experiment::save() {
  verify(cells_);
  write_file_atomically(path(), nlohmann::json(cells_).dump(2) + "\n");
}

bool Experiment::well() const {
  return std::ranges::all_of(cells_, [](const Cell& c) { return c.failure.empty() && c.doubt.empty(); });
}

}  // namespace tutti::lab
