// The same training under several strategies, one after another.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/train_config.h"
#include "report/cell.h"
#include "train/prepare.h"

namespace tutti::lab {

using report::Cell;

struct CompareSpec {
  config::TrainConfig base;  // out is the folder of the comparison
  std::vector<std::string> strategies;
  std::vector<int> workers;
  std::vector<std::string> models = {base.model};
  int repeats = 1;
  std::vector<std::string> engines = {base.engine};
};

// Which runs a comparison consists of: every model under every strategy with every engine at every number of
// workers that it can have, so many times, each in a folder of its own. One worker has nobody to exchange
// with and runs with the first engine alone. Pure. Throws ConfigError.
std::vector<Cell> plan_cells(const CompareSpec& spec);

// What a run of the cell is told: the base, without what only other strategies understand.
config::TrainConfig config_of(const Cell& cell, const report::Repeat& repeat,
                              const config::TrainConfig& base);

// A cell and what each of its repeats is told, but for the folder.
struct PlannedRun {
  Cell cell;
  config::TrainConfig config;
};
// The comparison's cells with their settings. With --reproducible all have the shards that most workers would
// get. Throws ConfigError, also where --reproducible is to compare several numbers of workers without a
// global batch: they would not do the same training.
std::vector<PlannedRun> plan_runs(const CompareSpec& spec);

// The summary of a run that has ended well under exactly this config, wherever it lies, with this data and,
// if it is one's own, this network, and is no older than the program; null if there is none.
nlohmann::json finished_run(const train::Setup& resolved, const std::filesystem::path& program);

// Says in each cell's doubt what keeps it from being compared with the others: replicas that differ, other
// initial weights, or other samples than workers that keep step have used.
void verify(std::vector<Cell>& cells);

}  // namespace tutti::lab
