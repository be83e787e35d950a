// Running the cells of a comparison or a study, one after another, in one folder.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/compare.h"
#include "lab/run.h"

namespace tutti::lab {

// Who shows an experiment while it runs. One thread calls it.
class ExperimentView {
 public:
  virtual ~ExperimentView() = default;
  // What follows is of this cell's repeat, from 0.
  virtual void begin(std::size_t cell, std::size_t repeat) = 0;
  // Says something for people.
  virtual void line(const std::string& text) = 0;
  // Hears the run that has begun.
  virtual launch::Listener listener() = 0;
  // Says what became of it.
  virtual void end(std::size_t cell, const std::string& what) = 0;
};

class Experiment {
 public:
  // Checks a run's settings against this machine. Throws ConfigError, DataError.
  using Prepare = std::function<train::Prepared(const config::TrainConfig&)>;

  // Checks all runs, before the first begins. The folder is empty or an experiment's; `program` is this
  // executable. Throws what `prepare` throws, and ConfigError.
  Experiment(std::string folder, std::vector<PlannedRun> runs, std::string program, Prepare prepare);

  // Runs what is missing, or with `again` everything, and keeps others out of the folder meanwhile. What
  // fails is said in its cell and does not stop the others. Returns how the run ended that was interrupted,
  // with what has finished kept; the others have not run. Throws ConfigError if another process has the
  // folder.
  std::optional<launch::Outcome> run(ExperimentView& view, bool again, const RunJob& run_job = launch::run);

  const std::vector<Cell>& cells() const { return cells_; }
  const std::string& folder() const { return folder_; }
  // The cells as JSON.
  std::filesystem::path path() const { return std::filesystem::path(folder_) / "compare.json"; }
  // Whether every cell has ended well and counts.
  bool well() const;

 private:
  void require_experiment() const;
  train::Prepared prepare(std::size_t cell, std::size_t repeat) const;
  bool take_finished(std::size_t cell, std::size_t repeat, const train::Setup& resolved);
  launch::Outcome run_one(std::size_t cell, std::size_t repeat, train::Prepared& prepared,
                          ExperimentView& view, const RunJob& run_job);
  void save();

  const std::string folder_;
  const std::string program_;
  const Prepare prepare_;
  train::FolderLock lock_;
  std::vector<Cell> cells_;
  std::vector<config::TrainConfig> configs_;  // by cell
};

}  // namespace tutti::lab
