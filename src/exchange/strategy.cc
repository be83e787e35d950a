#include "exchange/strategy.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "collectives/algorithms.h"
#include "exchange/running_exchange.h"

namespace tutti::exchange {

#define TUTTI_STRATEGY(name) Strategy name();
#include "exchange/strategies.inc"
#undef TUTTI_STRATEGY

using collectives::Operation;

namespace {

std::list<Strategy>& strategies() {
  static std::list<Strategy> all = {
#define TUTTI_STRATEGY(name) name(),
#include "exchange/strategies.inc"
#undef TUTTI_STRATEGY
  };
  return all;
}

}  // namespace

const std::list<Strategy>& all_strategies() {
  return strategies();
}

void add_strategy(Strategy strategy) {
  const auto& all = all_strategies();
  if (strategy.name.empty()) throw ConfigError("a strategy needs a name");
  if (std::ranges::find(all, strategy.name, &Strategy::name) != all.end()) {
    throw ConfigError(fmt::format("there is a strategy '{}' already", strategy.name));
  }
  strategies().push_back(std::move(strategy));
}

const Strategy& find_strategy(std::string_view name) {
  const auto& all = all_strategies();
  const auto found = std::ranges::find(all, name, &Strategy::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> names;
  for (const Strategy& s : all) names.push_back(s.name);
  throw ConfigError(fmt::format("unknown strategy '{}'; there are: {}", name, fmt::join(names, ", ")));
}

// A strategy such as ring is allreduce by one algorithm under a name of its own: to take another one would
// make the name untrue, so it is refused.
std::optional<collectives::Algorithm> algorithm_of(const Strategy& strategy, std::string_view algorithm) {
  const auto asked = collectives::parse_algorithm(algorithm);
  if (!strategy.algorithm) return asked;
  if (asked && asked != strategy.algorithm) {
    throw ConfigError(fmt::format("--strategy {} does not fit --algorithm {}; use --strategy allreduce",
                                  strategy.name, algorithm));
  }
  return strategy.algorithm;
}

FiniteOptions finite_options(const Strategy& strategy, const Tuning& tuning,
                             const collectives::Collectives& workers) {
  const bool alone = strategy.one_worker_only || strategy.asynchronous || strategy.replicas_differ;
  if (tuning.shards == 0) return {tuning.on_nonfinite, workers.rank(), alone ? 1 : workers.world()};
  return {tuning.on_nonfinite, workers.rank(), tuning.shards, true};
}

// By rows, servers apply what they are sent, each to the rows that it holds. That excludes whatever looks at
// more than a row before it is applied, and whatever changes rows that no batch has read.
std::string_view why_whole_tables(const Tuning& tuning) {
  if (optim::needs_layers(tuning.servers.optimizer.kind)) return "the optimizer looks at whole layers";
  if (tuning.clip_norm > 0) return "--clip-norm takes the norm of all gradients together";
  if (tuning.local_aggregation) return "the workers of a host add up whole gradients";
  if (tuning.servers.role == ps::Role::mean) return "the servers only average";
  if (tuning.shards > 0 && !optim::leaves_rows_without_gradient(tuning.servers.optimizer)) {
    return "--reproducible, and the optimizer also moves rows that a batch has not read";
  }
  if (tuning.whole_tables) return "--no-sparse asks for it";
  return "";
}

std::string_view why_no_shards(const Strategy& strategy) {
  if (strategy.asynchronous) return "its workers do not keep step, so no two of its runs are alike";
  if (strategy.replicas_differ) return "its replicas differ between synchronisations";
  if (strategy.shares_memory) return "its workers change the same parameters whenever they like";
  return "it adds up gradients in an order of its own";
}

bool takes_rows(const Strategy& strategy, const Tuning& tuning) {
  return strategy.servers && why_whole_tables(tuning).empty();
}

std::unique_ptr<RunningExchange> make_exchange(const Strategy& strategy, const Parts& parts,
                                               const Tuning& tuning) {
  return std::make_unique<RunningExchange>(strategy.make(parts, tuning));
}

std::vector<Collective> collectives_of(const Strategy& strategy, const collectives::Collectives& workers,
                                       const Tuning& tuning, std::uint64_t bucket_bytes) {
  std::vector<Collective> all;
  if (workers.world() == 1) return all;
  for (const Operation operation : strategy.collectives) {
    const bool adds = operation == Operation::all_reduce || operation == Operation::reduce;
    all.push_back({operation, adds && tuning.shards > 0 ? workers.method_of_shards(operation, bucket_bytes)
                                                        : workers.method(operation, bucket_bytes)});
  }
  return all;
}

std::string describe(const Strategy& strategy, const collectives::Collectives& workers, const Tuning& tuning,
                     std::uint64_t bucket_bytes) {
  if (workers.world() == 1 && !strategy.servers) return "none: one worker";
  std::vector<std::string> said;
  for (const auto& [operation, method] : collectives_of(strategy, workers, tuning, bucket_bytes)) {
    said.push_back(fmt::format("{} by {} ({})", name_of(operation), method.algorithm, method.reason));
  }
  std::string text = fmt::format("{}", fmt::join(said, ", then "));
  if (strategy.other_way) text += (text.empty() ? "" : "; ") + strategy.other_way(tuning);
  if (tuning.shards > 0) text += fmt::format("; sums in the order of {} shards", tuning.shards);
  return text;
}

}  // namespace tutti::exchange
