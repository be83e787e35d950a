#include "lab/study.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "lab/studies/studies.h"
#include "report/differences.h"
#include "report/run_folder.h"

namespace tutti::lab {
namespace {

// "2 servers" as a part of a folder's name.
std::string as_word(std::string text) {
  std::ranges::replace(text, ' ', '-');
  return text;
}

template <typename T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(value);
}

Evidence evidence_of(const Experiment& experiment) {
  Evidence evidence{experiment.cells(), report::differences(experiment.folder(), experiment.cells())};
  for (auto& cell : evidence.cells) {
    if (cell.summary.is_null()) continue;
    const auto metrics = report::read_metrics(cell.folder);
    if (!metrics.is_null()) cell.summary["evaluations"] = metrics.at("evaluations");
    cell.summary["checkpoints"] = report::saved_models(cell.folder);
  }
  return evidence;
}

}  // namespace

std::span<const Study> all_studies() {
  static const Study kStudies[] = {
#define TUTTI_STUDY(name) studies::name(),
#include "lab/studies/studies.inc"
#undef TUTTI_STUDY
  };
  return kStudies;
}

const Study& find_study(std::string_view name) {
  const auto all = all_studies();
  const auto found = std::ranges::find(all, name, &Study::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> names;
  for (const Study& s : all) names.push_back(s.name);
  throw ConfigError(fmt::format("unknown study '{}'; there are: {}", name, fmt::join(names, ", ")));
}

report::StudyResult result_of(const Study& study, Scale scale, const Experiment& experiment) {
  auto result = study.conclude(evidence_of(experiment));
  result.study = study.name;
  result.title = study.title;
  result.ran = study.ran;
  result.quick = scale == Scale::quick;
  write_file_atomically(std::filesystem::path(experiment.folder()) / "study.json",
                        nlohmann::json(result).dump(2) + "\n");
  return result;
}

PlannedRun planned(const std::string& folder, const config::TrainConfig& config, const std::string& variant,
                   int repeats) {
  Cell cell{config.strategy, config.workers, "", nullptr, "", config.model};
  cell.variant = variant;
  cell.folder = fmt::format("{}/{}-{}{}-{}", folder, config.model, config.strategy,
                            variant.empty() ? "" : "-" + as_word(variant), config.workers);
  for (int r = 1; r <= repeats; ++r) {
    cell.repeats.push_back({r == 1 ? cell.folder : fmt::format("{}-repeat-{}", cell.folder, r), nullptr});
  }
  return {std::move(cell), config};
}

const Cell* find_cell(const std::vector<Cell>& cells, const Which& which) {
  const auto found = std::ranges::find_if(cells, [&](const Cell& c) {
    return c.model == which.model && label_of(c) == which.label && c.workers == which.workers &&
           !c.summary.is_null() && c.doubt.empty();
  });
  return found == cells.end() ? nullptr : &*found;
}

std::optional<double> figure(const Cell* cell, const char* key) {
  if (cell == nullptr || !cell->summary.contains(key) || !cell->summary[key].is_number()) return std::nullopt;
  return cell->summary[key].get<double>();
}

nlohmann::json or_null(std::optional<double> number) {
  return number ? nlohmann::json(*number) : nlohmann::json();
}

std::vector<std::string> models_of(const std::vector<Cell>& cells) {
  std::vector<std::string> models;
  for (const Cell& c : cells) add_once(models, c.model);
  return models;
}

std::vector<std::string> labels_of(const std::vector<Cell>& cells, const std::string& model) {
  std::vector<std::string> labels;
  for (const Cell& c : cells) {
    if (c.model == model) add_once(labels, label_of(c));
  }
  return labels;
}

std::vector<int> workers_of(const std::vector<Cell>& cells) {
  std::vector<int> counts;
  for (const Cell& c : cells) add_once(counts, c.workers);
  std::ranges::sort(counts);
  return counts;
}

}  // namespace tutti::lab
