#include "train/strategy_settings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "config/settings.h"

namespace tutti::train {
namespace {

bool reads(const exchange::Strategy& strategy, const config::Setting& setting) {
  return setting.group != config::Group::strategy ||
         std::ranges::find(strategy.settings, setting.key) != strategy.settings.end();
}

}  // namespace

void require_own_settings(const exchange::Strategy& strategy, const config::TrainConfig& config) {
  const config::TrainConfig defaults;
  for (const auto& setting : config::settings()) {
    if (reads(strategy, setting) || text_of(setting, config) == text_of(setting, defaults)) continue;
    std::vector<std::string> readers;
    for (const auto& other : exchange::all_strategies()) {
      if (reads(other, setting)) readers.push_back(other.name);
    }
    const std::string value = text_of(setting, config);
    throw ConfigError(fmt::format("--{}{} is for {}; --strategy {} does not read it", setting.flag,
                                  value == "true" ? "" : " " + value, fmt::join(readers, ", "),
                                  strategy.name));
  }
}

void reset_others_settings(const exchange::Strategy& strategy, config::TrainConfig& config) {
  for (const auto& setting : config::settings()) {
    if (!reads(strategy, setting)) copy(setting, config::TrainConfig{}, config);
  }
}

}  // namespace tutti::train
