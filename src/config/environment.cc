#include "config/environment.h"

#include <cstdlib>

#include "base/error.h"

namespace tutti::config {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody here sets the environment
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace

std::filesystem::path cache_folder() {
  if (const auto cache = variable("XDG_CACHE_HOME")) return std::filesystem::path(*cache) / "tutti";
  if (const auto home = variable("HOME")) return std::filesystem::path(*home) / ".cache" / "tutti";
  return {};
}

std::vector<std::filesystem::path> data_roots() {
  std::vector<std::filesystem::path> roots;
  if (const auto data = variable("TUTTI_DATA")) roots.emplace_back(*data);
  if (const auto cache = cache_folder(); !cache.empty()) roots.push_back(cache);
  roots.emplace_back("/usr/share/datasets");
  return roots;
}

std::filesystem::path data_home() {
  if (const auto data = variable("TUTTI_DATA")) return *data;
  if (auto cache = cache_folder(); !cache.empty()) return cache;
  throw ConfigError("there is no folder for data: set TUTTI_DATA or HOME");
}

std::optional<int> omp_threads() {
  const auto text = variable("OMP_NUM_THREADS");
  if (!text) return std::nullopt;
  const int threads = std::atoi(text->c_str());
  return threads > 0 ? std::optional(threads) : std::nullopt;
}

}  // namespace tutti::config
