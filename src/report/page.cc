#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/version.h"
#include "checkpoint/strict_json.h"
#include "observe/summary.h"
#include "report/cell.h"
#include "report/differences.h"
#include "report/run_folder.h"
#include "report/schedules.h"
#include "report/study.h"
#include "report/template.h"
#include "report/verdict.h"

namespace tutti::report {
namespace {

namespace fs = std::filesystem;

// Samples of a node: as many as a picture can show, fewer where there are many runs.
constexpr std::size_t kMostPointsOfNodes = 4000;
constexpr std::size_t kFewestPoints = 60;

nlohmann::json read_json(const fs::path& path) {
  return checkpoint::parse_strict(read_file(path), path.string());
}

std::vector<Cell> read_cells(const fs::path& path) {
  const auto json = read_json(path);
  try {
    if (json.is_array() && !json.empty()) return json.get<std::vector<Cell>>();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(fmt::format("{}: no comparison: {}", path.string(), e.what()));
  }
  throw DataError(fmt::format("{}: no comparison: not a list of cells", path.string()));
}

// The summary as it lies in the folder now, not as it was when the comparison ended.
void reread(const fs::path& folder, Cell& cell) {
  if (cell.summary.is_null()) return;
  try {
    cell.summary = observe::read_summary_json(folder_of(folder, cell));
  } catch (const DataError& e) {
    cell.summary = nullptr;
    cell.failure = fmt::format("damaged: {}", e.what());
  }
}

Cell cell_of_run(const fs::path& folder) {
  const auto json = observe::read_summary_json(folder);
  const auto summary = json.get<observe::Summary>();
  return {summary.strategy, summary.workers, folder.string(), json, "", summary.model};
}

nlohmann::json read_study(const fs::path& path) {
  const auto json = read_json(path);
  try {
    return json.get<StudyResult>();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(fmt::format("{}: no outcome of a study: {}", path.string(), e.what()));
  }
}

nlohmann::json details(const Cell& cell, const fs::path& run, std::size_t runs,
                       const std::vector<std::string>& alone) {
  nlohmann::json json = cell;
  json["one_worker_only"] = std::ranges::find(alone, cell.strategy) != alone.end();
  if (cell.summary.is_null()) return json;
  json["metrics"] = read_metrics(run);
  json["nodes"] = read_nodes(run, std::max(kFewestPoints, kMostPointsOfNodes / runs));
  json["schedules"] = schedules_of(cell.summary);
  return json;
}

}  // namespace

nlohmann::json page_data(const fs::path& folder, const std::vector<std::string>& alone) {
  nlohmann::json data = {{"version", kVersion}, {"cells", nlohmann::json::array()}};
  if (fs::is_regular_file(folder / "compare.json")) {
    auto cells = read_cells(folder / "compare.json");
    for (Cell& cell : cells) {
      reread(folder, cell);
      data["cells"].push_back(details(cell, folder_of(folder, cell), cells.size(), alone));
    }
    data["kind"] = "comparison";
    data["verdict"] = verdict(cells);
    data["differences"] = differences(folder, cells);
    if (fs::is_regular_file(folder / "study.json")) data["study"] = read_study(folder / "study.json");
  } else if (fs::is_regular_file(folder / observe::kSummaryFile)) {
    data["kind"] = "run";
    data["cells"].push_back(details(cell_of_run(folder), folder, 1, alone));
  } else {
    throw DataError(
        fmt::format("{}: no folder of a run or a comparison: neither summary.json nor compare.json "
                    "is there",
                    folder.string()));
  }
  return data;
}

std::string render_page(const nlohmann::json& data) {
  const std::string json = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string page(kTemplateHead);
  page.reserve(kTemplateHead.size() + json.size() + kTemplateTail.size());
  for (const char c : json) {
    // In JSON a '<' stands inside a string only, and in HTML nothing ends a script without one.
    c == '<' ? page += "\\u003c" : page += c;
  }
  return page += kTemplateTail;
}

fs::path write_page(const fs::path& folder, const std::vector<std::string>& alone) {
  auto path = folder / "report.html";
  write_file_atomically(path, render_page(page_data(folder, alone)));
  return path;
}

}  // namespace tutti::report
