// What summary.json of a run says.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::report {

// A JSON file. Throws DataError that names it.
nlohmann::json read_json(const std::filesystem::path& path);

// summary.json of a run folder. Throws DataError, also where what every summary has is missing.
nlohmann::json read_summary(const std::filesystem::path& run_folder);

// What makes a run no plain training: "paced at 20 ms, slowed 3:5, emulated hosts=6,link=1gbit"; else empty.
std::string conditions_of(const nlohmann::json& summary);

// Whether all replicas of a summary hold the same parameters.
bool replicas_agree(const nlohmann::json& summary);

}  // namespace tutti::report
