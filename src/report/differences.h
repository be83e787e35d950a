// How far apart the runs of a comparison have ended.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/cell.h"

namespace tutti::report {

// Each cell's last checkpoint beside that of the first cell of the same model and number of workers: "first",
// "second" (cells by number), "identical", and where they are not "elements", "differing", "max_abs",
// "max_ulps" and "tensor", where the largest lies; or "unreadable", why nothing can be said. Folders are
// looked for in `folder`, wherever they were when the runs were made.
nlohmann::json differences(const std::filesystem::path& folder, const std::vector<Cell>& cells);

// What a run has saved: "step" and "model_sha256" of its file, by step. What cannot be read is left out.
nlohmann::json saved_models(const std::filesystem::path& run);

// Where a cell's run lies now.
std::filesystem::path folder_of(const std::filesystem::path& folder, const Cell& cell);

}  // namespace tutti::report
