// A run folder or the folder of a comparison as one page, report.html, that opens offline.
//
// All that the page shows of a run comes from the folder; what was not measured is left out. The page's own
// source is src/report/page/, put together at build time.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::report {

// What the page is given: "kind" ("comparison" or "run"), "verdict", "cells", "differences", "version", and
// of a study "study", its outcome. A cell whose run is damaged says so in its "failure", and one whose
// strategy `alone` names, the strategies of one worker, in "one_worker_only". Throws DataError where the
// folder is neither kind.
nlohmann::json page_data(const std::filesystem::path& folder, const std::vector<std::string>& alone);

// The page around the data. Nothing in the data can end the block that it stands in.
std::string render_page(const nlohmann::json& data);

// Writes report.html into the folder and returns its path. Throws DataError, RunError.
std::filesystem::path write_page(const std::filesystem::path& folder, const std::vector<std::string>& alone);

}  // namespace tutti::report
