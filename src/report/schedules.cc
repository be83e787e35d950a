#include "report/schedules.h"

#include <optional>

#include "base/error.h"
#include "collectives/choose.h"
#include "collectives/schedule.h"

namespace tutti::report {
namespace {

using collectives::Operation;

constexpr int kMostRanks = 12;

std::optional<Operation> parse_operation(const std::string& name) {
  for (const auto o : {Operation::all_reduce, Operation::reduce, Operation::broadcast}) {
    if (name_of(o) == name) return o;
  }
  return std::nullopt;
}

std::optional<collectives::Algorithm> parse(const std::string& algorithm) {
  try {
    return collectives::parse_algorithm(algorithm);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

nlohmann::json rounds_of(Operation operation, collectives::Algorithm algorithm, int world,
                         std::size_t count) {
  auto rounds = nlohmann::json::array();
  for (int rank = 0; rank < world; ++rank) {
    const auto schedule = make_schedule(operation, algorithm, Rank{rank}, world, count);
    for (std::size_t k = 0; k < schedule.rounds.size(); ++k) {
      if (rounds.size() <= k) rounds.push_back(nlohmann::json::array());
      for (const auto& r : schedule.rounds[k].receives) {
        rounds[k].push_back({{"from", to_int(r.peer)},
                             {"to", rank},
                             {"first", r.chunk.first},
                             {"count", r.chunk.count},
                             {"combine", r.combine}});
      }
    }
  }
  return rounds;
}

}  // namespace

nlohmann::json schedules_of(const nlohmann::json& summary) {
  auto all = summary.value("collectives", nlohmann::json::array());
  const int world = summary.value("workers", 1);
  for (auto& one : all) {
    const auto operation = parse_operation(one.value("operation", ""));
    const auto algorithm = parse(one.value("algorithm", ""));
    if (!operation || !algorithm || !has(*algorithm, *operation) || world > kMostRanks) continue;
    if (info_of(*algorithm).schedule == nullptr) continue;
    one["rounds"] =
        rounds_of(*operation, *algorithm, world, one.value("bytes", std::size_t{0}) / sizeof(float));
  }
  return all;
}

}  // namespace tutti::report
