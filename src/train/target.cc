#include "train/target.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace tutti::train {

bool Target::reached_by(const Evaluation& evaluation) const {
  const double now = evaluation.figures.at(figure);
  return small_is_good ? now <= value : now >= value;
}

std::optional<Target> target_of(const config::TrainConfig& config, const models::ModelInfo& model) {
  const auto until = config::parse_until(config);
  if (!until) return std::nullopt;
  const auto& figures = model.measures.figures;
  const auto found = std::ranges::find(figures, until->figure, &models::Figure::name);
  if (found == figures.end()) {
    std::vector<std::string_view> names;
    for (const models::Figure& f : figures) names.push_back(f.name);
    throw ConfigError(fmt::format("--until {}: model {} has no figure '{}'; it has: {}", config.until,
                                  model.name, until->figure, fmt::join(names, ", ")));
  }
  return Target{until->figure, until->value, found->small_is_good};
}

}  // namespace tutti::train
