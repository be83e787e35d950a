#include "report/differences.h"

#include <fmt/format.h>

#include <fstream>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/diff.h"

namespace tutti::report {
namespace {

namespace fs = std::filesystem;

nlohmann::json difference(const fs::path& first, const fs::path& second) {
  const auto a = checkpoint::open_any(first);
  const auto b = checkpoint::open_any(second);
  std::int64_t elements = 0;
  checkpoint::ElementDifferences worst;
  std::int64_t differing = 0;
  std::uint64_t ulps = 0;
  std::string where;
  for (const auto& t : checkpoint::diff(a.model.tensors(), b.model.tensors()).tensors) {
    elements += t.elements;
    differing += t.values.differing;
    ulps = std::max(ulps, t.values.max_ulps);
    if (t.values.max_abs > worst.max_abs) {
      worst = t.values;
      where = t.name;
    }
  }
  return {{"elements", elements},
          {"differing", differing},
          {"max_abs", worst.max_abs},
          {"max_ulps", ulps},
          {"tensor", where}};
}

nlohmann::json compare(const fs::path& folder, const Cell& first, const Cell& second) {
  if (first.summary.at("parameters_sha256") == second.summary.at("parameters_sha256")) {
    return {{"identical", true}};
  }
  nlohmann::json row;
  try {
    row = difference(folder_of(folder, first), folder_of(folder, second));
  } catch (const UsageError& e) {
    row = {{"unreadable", e.what()}};
  }
  row["identical"] = false;
  return row;
}

}  // namespace

fs::path folder_of(const fs::path& folder, const Cell& cell) {
  return folder / fs::path(cell.folder).filename();
}

nlohmann::json saved_models(const fs::path& run) {
  auto saved = nlohmann::json::array();
  for (const auto& [step, path] : checkpoint::list(run)) {
    std::ifstream file(path / "manifest.json");
    const auto manifest = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    const nlohmann::json::json_pointer digest("/files/model.safetensors/sha256");
    if (manifest.is_object() && manifest.contains(digest)) {
      saved.push_back({{"step", step}, {"model_sha256", manifest[digest]}});
    }
  }
  return saved;
}

nlohmann::json differences(const fs::path& folder, const std::vector<Cell>& cells) {
  auto rows = nlohmann::json::array();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const Cell& first = cells[k];
      const Cell& second = cells[i];
      if (first.model != second.model || first.workers != second.workers || first.summary.is_null()) continue;
      if (second.summary.is_null()) break;
      auto row = compare(folder, first, second);
      row["first"] = k;
      row["second"] = i;
      rows.push_back(std::move(row));
      break;
    }
  }
  return rows;
}

}  // namespace tutti::report
