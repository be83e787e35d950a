#include "collectives/algorithms.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace tutti::collectives {

#define TUTTI_ALGORITHM(name) AlgorithmInfo name();
#include "collectives/algorithms.inc"
#undef TUTTI_ALGORITHM

std::span<const AlgorithmInfo> algorithms() {
  static const AlgorithmInfo kAll[] = {
#define TUTTI_ALGORITHM(name) name(),
#include "collectives/algorithms.inc"
#undef TUTTI_ALGORITHM
  };
  return kAll;
}

const AlgorithmInfo& info_of(Algorithm algorithm) {
  const auto i = static_cast<std::size_t>(algorithm);
  TUTTI_CHECK(i < algorithms().size(), "algorithm {}", i);
  return algorithms()[i];
}

std::string_view name_of(Algorithm algorithm) {
  return info_of(algorithm).name;
}

bool serves(Algorithm algorithm, const Call& call) {
  const AlgorithmInfo& info = info_of(algorithm);
  using Runs = AlgorithmInfo::Runs;
  const bool in_place = call.path == Path::in_place;
  if (info.runs == (in_place ? Runs::by_messages : Runs::in_place)) return false;
  if (!has(algorithm, call.operation)) return false;
  return info.can_serve == nullptr || info.can_serve(call);
}

bool has(Algorithm algorithm, Operation operation) {
  return !info_of(algorithm).all_reduce_only || operation == Operation::all_reduce ||
         operation == Operation::barrier;
}

std::optional<Algorithm> parse_algorithm(std::string_view text) {
  if (text == "auto") return std::nullopt;
  const auto all = algorithms();
  const auto found = std::ranges::find(all, text, &AlgorithmInfo::name);
  if (found != all.end()) return static_cast<Algorithm>(std::distance(all.begin(), found));
  std::string names = "auto";
  for (const AlgorithmInfo& a : all) names += fmt::format(", {}", a.name);
  throw ConfigError(fmt::format("no algorithm is called '{}'; there are {}", text, names));
}

}  // namespace tutti::collectives
