#include "engines/engines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "collectives/algorithms.h"

namespace tutti::engines {

#define TUTTI_ENGINE(name) EngineInfo name();
#include "engines/engines.inc"
#undef TUTTI_ENGINE

std::span<const EngineInfo> engines() {
  static const EngineInfo kAll[] = {
#define TUTTI_ENGINE(name) name(),
#include "engines/engines.inc"
#undef TUTTI_ENGINE
  };
  return kAll;
}

const EngineInfo& engine_named(std::string_view name) {
  const auto all = engines();
  if (name == "auto") return all.front();
  const auto found = std::ranges::find(all, name, &EngineInfo::name);
  if (found == all.end())
    throw ConfigError(fmt::format("no engine is called '{}'; there are {}", name, engine_names()));
  return *found;
}

const EngineInfo& find_engine(std::string_view name) {
  const EngineInfo& found = engine_named(name);
  const std::string why_not = found.why_not == nullptr ? "" : found.why_not();
  if (!why_not.empty()) throw ConfigError(fmt::format("--engine {}: {}", name, why_not));
  return found;
}

std::string engine_names() {
  std::string names = "auto";
  for (const EngineInfo& e : engines()) names += fmt::format(" | {}", e.name);
  return names;
}

void require_fits(const EngineInfo& engine, std::string_view algorithm) {
  if (engine.takes_algorithms || !collectives::parse_algorithm(algorithm)) return;
  throw ConfigError(
      fmt::format("--engine {} chooses algorithms itself; leave --algorithm {} out", engine.name, algorithm));
}

}  // namespace tutti::engines
