// One cell of a comparison: a strategy at a number of workers, run once or more.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::report {

struct Repeat {
  std::string folder;
  nlohmann::json summary;  // null until it has ended well
};

struct Cell {
  std::string strategy;
  int workers = 1;
  std::string folder;      // of the repeat whose summary stands for all
  nlohmann::json summary;  // the repeat of median speed; null if the cell failed or did not run
  std::string failure;     // why there is no summary
  std::string model = {};
  std::string doubt = {};  // why the summary does not count beside the others
  std::vector<Repeat> repeats = {};
  std::string variant = {};  // what sets it apart from others of its strategy: "2 servers"
  std::string engine = {};   // who carries out its collectives; empty: as the settings say
};

// Samples a second.
double speed(const Cell& cell);
// The repeats that ended well, slowest first.
std::vector<double> speeds(const Cell& cell);

// "ps-sync, 2 servers": the strategy and its variant.
std::string label_of(const Cell& cell);
// "ring at 2 workers".
std::string name_of(const Cell& cell);

// Lets the repeat of median speed stand for the cell; of an even number, the slower of the middle two.
// Does nothing where none has ended well.
void take_median_repeat(Cell& cell);

// As compare.json has them; and back, without the repeats' summaries. from_json throws
// nlohmann::json::exception.
void to_json(nlohmann::json& json, const Cell& cell);
void from_json(const nlohmann::json& json, Cell& cell);

}  // namespace tutti::report
