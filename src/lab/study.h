// The studies that can be reproduced: what each ran, as runs of ours, and what to conclude from them.
//
// A study is data and two pure functions. `plan` gives its runs, which an Experiment runs.
// `conclude` makes tables, figures and claims of what the cells say, with the study's numbers beside ours.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/experiment.h"
#include "report/study.h"

namespace tutti::lab {

// A part of the study in minutes, or all of it in an hour or two; on two cores.
enum class Scale { quick, full };

struct Evidence {
  // Summaries have "evaluations", as report::read_metrics gives them, and "checkpoints", as
  // report::saved_models.
  std::vector<Cell> cells;
  nlohmann::json differences;  // as report::differences gives them
};

struct Study {
  std::string_view name;
  std::string_view title;
  std::string_view ran;  // what it ran, and what we run in its place
  std::vector<PlannedRun> (*plan)(Scale scale, const std::string& folder);
  // Claims, tables and charts. What has failed or is in doubt is left out.
  report::StudyResult (*conclude)(const Evidence& evidence);
};

std::span<const Study> all_studies();

// Throws ConfigError that lists the names.
const Study& find_study(std::string_view name);

// What the study says of its runs; also written into their folder, as study.json, for its page. Throws
// RunError.
report::StudyResult result_of(const Study& study, Scale scale, const Experiment& experiment);

// A run of a study, in a folder of its own under `folder`.
PlannedRun planned(const std::string& folder, const config::TrainConfig& config,
                   const std::string& variant = {}, int repeats = 1);

// Which cell; its label is the strategy with its variant.
struct Which {
  std::string model;
  std::string label;
  int workers = 1;
};
// The cell if it has ended well and counts; else null.
const Cell* find_cell(const std::vector<Cell>& cells, const Which& which);

// A figure of the cell's summary; nothing where there is no cell or no such number.
std::optional<double> figure(const Cell* cell, const char* key);

// For tables: the number, or null.
nlohmann::json or_null(std::optional<double> number);

// The cells' distinct models, labels and numbers of workers, in their order.
std::vector<std::string> models_of(const std::vector<Cell>& cells);
std::vector<std::string> labels_of(const std::vector<Cell>& cells, const std::string& model);
std::vector<int> workers_of(const std::vector<Cell>& cells);

}  // namespace tutti::lab
