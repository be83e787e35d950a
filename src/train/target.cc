#include "train/target.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tutti::train {
namespace {

constexpr Rank kFirst{0};
constexpr net::Activity kDoing{"ending the run"};

}  // namespace

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

void EndCall::tell(bool end_now) {
  if (std::exchange(said_, true)) return;
  const std::byte word{static_cast<unsigned char>(end_now)};
  for (int r = 1; r < workers_.world(); ++r) net::send(workers_, Rank{r}, {&word, 1}, kDoing);
}

bool EndCall::heard() {
  return !said_ && workers_.wait_for_any({&kFirst, 1}, Clock::duration::zero(), kDoing) && receive();
}

bool EndCall::receive() {
  std::byte word{};
  net::receive(workers_, kFirst, {&word, 1}, kDoing);
  said_ = true;
  return word == std::byte{1};
}

void EndCall::conclude() {
  if (workers_.rank() == kFirst) return tell(false);
  if (!said_) receive();
}

}  // namespace tutti::train
