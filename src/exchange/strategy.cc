#include "exchange/strategy.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "exchange/hogwild.h"
#include "exchange/hybrid.h"
#include "exchange/local.h"
#include "exchange/overlapped.h"
#include "exchange/periodic.h"
#include "exchange/servers.h"

namespace tutti::exchange {

using collectives::Operation;

namespace {

constexpr Strategy kStrategies[] = {
    {.name = "local", .summary = "one worker, no exchange", .one_worker_only = true},
    {.name = "ring", .summary = "all-reduce around a ring"},
    {.name = "allreduce", .summary = "all-reduce by the fastest algorithm for this world"},
    {.name = "reduce-broadcast", .summary = "reduce to rank 0, average, broadcast (study B's way)"},
    {.name = "ps-sync",
     .summary = "parameter servers; a step waits for every worker",
     .servers = ps::Consistency::sync},
    {.name = "ps-async",
     .summary = "parameter servers; every gradient counts as it comes",
     .servers = ps::Consistency::async,
     .apart = true},
    {.name = "ps-ssp",
     .summary = "parameter servers; nobody runs more than --staleness steps ahead",
     .servers = ps::Consistency::ssp,
     .apart = true},
    {.name = "hybrid",
     .summary = "dense gradients by all-reduce, embedding rows by servers",
     .servers = ps::Consistency::sync,
     .hybrid = true},
    {.name = "hogwild", .summary = "shared parameters, no locks; one host", .apart = true},
    {.name = "easgd",
     .summary = "elastic averaging around a centre every --sync-every steps",
     .drifts = true},
    {.name = "local-sgd", .summary = "average the parameters every --sync-every steps", .drifts = true},
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

FiniteOptions finite_options(const Strategy& strategy, const Tuning& tuning,
                             const collectives::Communicator& workers) {
  const bool alone = strategy.one_worker_only || strategy.apart || strategy.drifts;
  return {tuning.on_nonfinite, workers.rank(), alone ? 1 : workers.world()};
}

std::string_view why_whole_tables(const Tuning& tuning) {
  if (optim::needs_layers(tuning.servers.optimizer.kind)) return "the optimizer looks at whole layers";
  if (tuning.clip_norm > 0) return "--clip-norm takes the norm of all gradients together";
  if (tuning.local_aggregation) return "the workers of a host add up whole gradients";
  if (tuning.servers.role == ps::Role::mean) return "the servers only average";
  if (tuning.whole_tables) return "--no-sparse asks for it";
  return "";
}

bool takes_rows(const Strategy& strategy, const Tuning& tuning) {
  return strategy.servers && why_whole_tables(tuning).empty();
}

std::unique_ptr<Exchange> make_exchange(const Strategy& strategy, const Parts& p, const Tuning& tuning) {
  if (strategy.one_worker_only) return std::make_unique<Local>(p.buckets, p.updater);
  if (strategy.hybrid) return std::make_unique<Hybrid>(p, tuning);
  if (strategy.servers && tuning.local_aggregation) return std::make_unique<AggregatedServers>(p, tuning);
  if (strategy.servers) return std::make_unique<Servers>(p, tuning);
  if (strategy.name == "hogwild")
    return std::make_unique<Hogwild>(p.buckets, p.updater, p.everyone, p.workers, tuning.servers.timeout);
  if (strategy.name == "local-sgd") {
    return std::make_unique<LocalSgd>(p.buckets, p.updater, p.workers, tuning.sync_every, p.trace);
  }
  if (strategy.name == "easgd") {
    return std::make_unique<ElasticAveraging>(p.buckets, p.updater, p.workers, tuning.sync_every,
                                              tuning.moving_rate, p.trace);
  }
  Overlapped::Average average = tuning.average;
  if (!average) {
    average = strategy.name == "reduce-broadcast" ? average_by_reduce_and_broadcast : average_by_all_reduce;
  }
  return std::make_unique<Overlapped>(p.buckets, p.updater, p.workers, std::move(average), p.trace);
}

std::vector<Collective> collectives_of(const Strategy& strategy, const collectives::Communicator& workers,
                                       std::uint64_t bucket_bytes) {
  const bool none = strategy.one_worker_only || workers.world() == 1 || strategy.apart;
  if (none || (strategy.servers && !strategy.hybrid)) return {};
  std::vector<Collective> all;
  const auto add = [&](Operation operation) {
    all.push_back({operation, workers.choice(operation, bucket_bytes)});
  };
  if (strategy.name == "reduce-broadcast") {
    add(Operation::reduce);
    add(Operation::broadcast);
  } else {
    add(Operation::all_reduce);
  }
  return all;
}

std::string describe(const Strategy& strategy, const collectives::Communicator& workers, const Tuning& tuning,
                     std::uint64_t bucket_bytes) {
  if (strategy.servers && !strategy.hybrid) {
    const auto& s = tuning.servers;
    return fmt::format("{} server{} that {}{}{}", s.servers, s.servers == 1 ? "" : "s",
                       s.role == ps::Role::update ? "update" : "only average",
                       s.policy.backup > 0 ? fmt::format(", {} backup", s.policy.backup) : "",
                       tuning.local_aggregation ? ", one push a host" : "");
  }
  if (strategy.one_worker_only || workers.world() == 1) return "none: one worker";
  if (strategy.apart) return "shared parameters";
  std::vector<std::string> said;
  for (const auto& [operation, choice] : collectives_of(strategy, workers, bucket_bytes)) {
    said.push_back(
        fmt::format("{} by {} ({})", name_of(operation), name_of(choice.algorithm), choice.reason));
  }
  return fmt::format("{}{}", fmt::join(said, ", then "),
                     strategy.hybrid ? fmt::format("; rows by {} servers", tuning.servers.servers) : "");
}

}  // namespace tutti::exchange
