// The same training under several strategies, one after another, in one table.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/train_config.h"

namespace tutti::lab {

struct Cell {
  std::string strategy;
  int workers = 1;
  std::string folder;
  nlohmann::json summary;  // null if it failed
  std::string failure;
};

struct CompareSpec {
  config::TrainConfig base;  // out is the folder of the comparison
  std::vector<std::string> strategies;
  std::vector<int> workers;
};

// Which runs a comparison consists of: every strategy at every number of workers that it can have. Pure.
std::vector<Cell> plan_cells(const CompareSpec& spec);

// The table: strategy, workers, samples a second, speed-up over the first cell of one worker, and so on.
std::string render_table(const std::vector<Cell>& cells);

// What to take from it, in a sentence with its reason; empty if no cell with more than one worker succeeded.
std::string verdict(const std::vector<Cell>& cells);

nlohmann::json to_json(const std::vector<Cell>& cells);

}  // namespace tutti::lab
