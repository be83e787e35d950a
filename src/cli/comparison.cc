#include "cli/comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/train_command.h"
#include "observe/summary.h"

namespace tutti::cli {

Comparison::Comparison(std::string folder, std::vector<lab::PlannedRun> runs, bool again)
    : folder_(std::move(folder)), again_(again), lock_(train::FolderLock::take_if_there(folder_)) {
  require_comparison();
  for (auto& run : runs) {
    cells_.push_back(std::move(run.cell));
    configs_.push_back(std::move(run.config));
  }
  // All of them first: an hour of runs shall not end in a typing error.
  for (std::size_t i = 0; i < cells_.size(); ++i) prepare(i, 0);
}

// compare.json is written first, so that it marks the folder.
void Comparison::require_comparison() const {
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

std::optional<int> Comparison::run() {
  if (!lock_) lock_ = train::FolderLock::take(folder_);
  require_comparison();
  if (!std::filesystem::exists(path())) save();
  LiveTable table(cells_);
  std::size_t repeats = 0;
  for (const auto& cell : cells_) repeats = std::max(repeats, cell.repeats.size());
  // In turns, so that what the machine does meanwhile falls on all of them.
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!cells_[i].failure.empty() || repeat >= cells_[i].repeats.size()) continue;
      const auto outcome = run_one(i, repeat, table);
      if (outcome.interrupted_by == 0) continue;
      table.error_line(fmt::format(
          "tutti: {}; what has finished is kept, the same command goes on from there", outcome.line));
      return outcome.exit_code;
    }
  }
  return std::nullopt;
}

train::Prepared Comparison::prepare(std::size_t cell, std::size_t repeat) const {
  auto config = configs_[cell];
  config.out = cells_[cell].repeats[repeat].folder;
  config.overwrite = true;  // the comparison's own
  return prepare_here(config);
}

launch::Outcome Comparison::run_one(std::size_t i, std::size_t repeat, LiveTable& table) {
  auto& cell = cells_[i];
  auto& summary = cell.repeats[repeat].summary;
  auto prepared = prepare(i, repeat);
  table.begin(i, repeat);
  if (!again_) summary = lab::finished_run(prepared.setup.config, this_program());
  const bool reused = !summary.is_null();
  auto outcome = reused ? launch::Outcome{} : run_shown(prepared, table);
  if (outcome.interrupted_by != 0) return outcome;
  if (reused) table.line(name_of(cell) + " had finished with the same settings: taken as it is");
  std::string what = "done";
  if (outcome.exit_code != 0) {
    cell.failure = what = outcome.line;
    cell.summary = nullptr;
  } else {
    if (!reused) summary = observe::read_summary_json(cell.repeats[repeat].folder);
    report::take_median_repeat(cell);
  }
  save();
  table.end(i, what);
  return outcome;
}

// After each run, so that what an interrupted comparison leaves can be looked at.
void Comparison::save() {
  lab::verify(cells_);
  write_file_atomically(path(), nlohmann::json(cells_).dump(2) + "\n");
}

bool Comparison::well() const {
  return std::ranges::all_of(cells_,
                             [](const report::Cell& c) { return c.failure.empty() && c.doubt.empty(); });
}

}  // namespace tutti::cli
