#include "exchange/strategy.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "exchange/local.h"
#include "exchange/overlapped.h"

namespace tutti::exchange {

using collectives::Operation;

namespace {

constexpr Strategy kStrategies[] = {
    {"local", "one worker, no exchange", true},
    {"ring", "all-reduce around a ring"},
    {"allreduce", "all-reduce by the fastest algorithm for this world"},
    {"reduce-broadcast", "reduce to rank 0, average, broadcast (study B's way)"},
};

}  // namespace

std::span<const Strategy> all_strategies() {
  return kStrategies;
}

const Strategy& find_strategy(std::string_view name) {
  const auto* found = std::ranges::find(kStrategies, name, &Strategy::name);
  if (found != std::end(kStrategies)) return *found;
  std::vector<std::string_view> names;
  for (const Strategy& s : kStrategies) names.push_back(s.name);
  throw ConfigError(fmt::format("unknown strategy '{}'; there are: {}", name, fmt::join(names, ", ")));
}

std::optional<collectives::Algorithm> algorithm_of(const Strategy& strategy, std::string_view algorithm) {
  const auto asked = collectives::parse_algorithm(algorithm);
  if (strategy.name != "ring") return asked;
  if (asked && *asked != collectives::Algorithm::ring) {
    throw ConfigError(
        fmt::format("--strategy ring does not fit --algorithm {}; use --strategy allreduce", algorithm));
  }
  return collectives::Algorithm::ring;
}

std::unique_ptr<Exchange> make_exchange(const Strategy& strategy, const Parts& p) {
  if (strategy.one_worker_only) return std::make_unique<Local>(p.buckets, p.updater);
  const auto average =
      strategy.name == "reduce-broadcast" ? average_by_reduce_and_broadcast : average_by_all_reduce;
  return std::make_unique<Overlapped>(p.buckets, p.updater, p.all, average, p.trace);
}

std::string describe(const Strategy& strategy, const collectives::Communicator& all,
                     std::uint64_t bucket_bytes) {
  if (strategy.one_worker_only || all.world() == 1) return "none: one worker";
  const auto say = [&](Operation operation) {
    const auto choice = all.choice(operation, bucket_bytes);
    return fmt::format("{} by {} ({})", name_of(operation), name_of(choice.algorithm), choice.reason);
  };
  if (strategy.name == "reduce-broadcast")
    return say(Operation::reduce) + ", then " + say(Operation::broadcast);
  return say(Operation::all_reduce);
}

void broadcast_from_first(collectives::Communicator& all, grad::Buckets& buckets,
                          const std::vector<std::span<float>>& flat, std::string_view label) {
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto staging = buckets.gradients(b);
    std::ranges::copy(flat[b], staging.begin());
    all.broadcast({staging.data(), staging.size(), DType::f32}, Rank{0}, label);
    std::ranges::copy(staging, flat[b].begin());
    std::ranges::fill(staging, 0.0F);
  }
}

}  // namespace tutti::exchange
