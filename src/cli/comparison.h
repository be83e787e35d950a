// Running the cells of a comparison or a study, one after another, shown as a table while it grows.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/live_table.h"
#include "lab/compare.h"
#include "launch/launcher.h"
#include "train/prepare.h"

namespace tutti::cli {

class Comparison {
 public:
  // Checks all runs, before the first begins. `again` runs also what has finished in `folder`, which is empty
  // or a comparison's: what an earlier one left of a cell that is run again is removed. Throws ConfigError,
  // DataError.
  Comparison(std::string folder, std::vector<lab::PlannedRun> runs, bool again);

  // Runs what is missing, and keeps others out of the folder meanwhile. What fails is said in its cell and
  // does not stop the others. Returns the exit code where it was interrupted, with what has finished kept.
  // Throws ConfigError if another process has the folder.
  std::optional<int> run();

  const std::vector<report::Cell>& cells() const { return cells_; }
  const std::string& folder() const { return folder_; }
  // The cells as JSON.
  std::filesystem::path path() const { return std::filesystem::path(folder_) / "compare.json"; }
  // Whether every cell has ended well and counts.
  bool well() const;

 private:
  void require_comparison() const;
  train::Prepared prepare(std::size_t cell, std::size_t repeat) const;
  launch::Outcome run_one(std::size_t i, std::size_t repeat, LiveTable& table);
  void save();

  const std::string folder_;
  const bool again_;
  train::FolderLock lock_;
  std::vector<report::Cell> cells_;
  std::vector<config::TrainConfig> configs_;  // by cell
};

}  // namespace tutti::cli
