// A run folder or the folder of a comparison as one page, report.html, that opens offline.
//
// All that the page shows comes from the folder; what was not measured is left out. The page's own source is
// src/report/page/, put together at build time.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::report {

// What the page is given: "kind" ("comparison" or "run"), "verdict", "cells", "differences", "version", and
// of a study "study", its outcome. A
// cell whose run is damaged says so in its "failure". Throws DataError where the folder is neither kind.
nlohmann::json page_data(const std::filesystem::path& folder);

// The page around the data. Nothing in the data can end the block that it stands in.
std::string render_page(const nlohmann::json& data);

// Writes report.html into the folder and returns its path. Throws DataError, RunError.
std::filesystem::path write_page(const std::filesystem::path& folder);

}  // namespace tutti::report
