#include "report/summary.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace tutti::report {
namespace {

using Kind = nlohmann::json::value_t;

struct Key {
  const char* name;
  Kind kind;
};

// What tables, verdicts and pages count on.
constexpr Key kKeys[] = {{"model", Kind::string},
                         {"data", Kind::string},
                         {"strategy", Kind::string},
                         {"workers", Kind::number_unsigned},
                         {"steps", Kind::number_unsigned},
                         {"samples_per_second", Kind::number_float},
                         {"step_ms", Kind::object},
                         {"exchange_ms", Kind::number_float},
                         {"exposed_exchange_ms", Kind::number_float},
                         {"bytes_sent_per_worker", Kind::number_unsigned},
                         {"parameters_sha256", Kind::string},
                         {"replicas_sha256", Kind::array},
                         {"config", Kind::object}};

bool fits(const nlohmann::json& value, Kind kind) {
  return kind == Kind::number_float ? value.is_number() : value.type() == kind;
}

}  // namespace

nlohmann::json read_json(const std::filesystem::path& path) {
  try {
    return nlohmann::json::parse(read_file(path));
  } catch (const nlohmann::json::exception& e) {
    throw DataError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

nlohmann::json read_summary(const std::filesystem::path& run_folder) {
  const auto path = run_folder / "summary.json";
  auto summary = read_json(path);
  for (const Key& key : kKeys) {
    if (!summary.is_object() || !summary.contains(key.name) || !fits(summary[key.name], key.kind)) {
      throw DataError(fmt::format("{}: no summary of a run: '{}' is not there or of another kind",
                                  path.string(), key.name));
    }
  }
  if (!summary["step_ms"].contains("median") || !summary["step_ms"]["median"].is_number()) {
    throw DataError(fmt::format("{}: no summary of a run: 'step_ms' has no median", path.string()));
  }
  return summary;
}

std::string conditions_of(const nlohmann::json& summary) {
  std::vector<std::string> said;
  if (const double pace = summary.value("pace_ms", 0.0); pace > 0)
    said.push_back(fmt::format("paced at {} ms", pace));
  if (const auto slow = summary.value("slow", std::string()); !slow.empty()) said.push_back("slowed " + slow);
  if (summary.contains("emulated")) {
    const auto& e = summary["emulated"];
    said.push_back(
        fmt::format("emulated hosts={},link={}", e.at("hosts").get<int>(), e.at("link").get<std::string>()));
  }
  return fmt::format("{}", fmt::join(said, ", "));
}

bool replicas_agree(const nlohmann::json& summary) {
  const auto& replicas = summary.at("replicas_sha256");
  return std::ranges::all_of(replicas, [&](const auto& r) { return r == summary.at("parameters_sha256"); });
}

}  // namespace tutti::report
