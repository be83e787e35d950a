// Strategies by the names that people type. No header of libtorch here: the program asks what there is.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/collectives.h"
#include "exchange/finite_options.h"
#include "observe/trace.h"
#include "ps/server.h"

namespace tutti::grad {
class Buckets;
class Tables;
}  // namespace tutti::grad

namespace tutti::exchange {

class Exchange;
class RunningExchange;
class ShardGradients;
class Updater;

// What the exchange works with. All of it outlives the exchange.
struct Parts {
  grad::Buckets& buckets;
  const grad::Tables& tables;  // beside the buckets; only where the strategy takes rows
  Updater& updater;
  net::Transport& everyone;           // workers, then servers
  collectives::Collectives& workers;  // the workers alone
  observe::Trace& trace;
  ShardGradients* shards = nullptr;  // where each worker computes several (Tuning::shards)
};

// Numbers of single strategies. Outlives the exchange.
struct Tuning {
  ps::ServerOptions servers = {};  // ps-*
  std::size_t piece_bytes = 0;     // ps-*; 0: what suits the transport
  int partitions = 1;              // ps-*, hybrid: of each embedding table
  bool local_aggregation = false;  // ps-sync
  bool whole_tables = false;       // ps-*, hybrid: as was asked for
  int shards = 0;                  // of a global batch, which workers compute one by one; 0: each has one
  std::int64_t sync_every = 8;     // local-sgd, easgd: steps between synchronisations
  double moving_rate = 0.1;        // easgd
  double clip_norm = 0;            // 0: gradients stay as long as they are
  OnNonFinite on_nonfinite = OnNonFinite::stop;
  // ring, allreduce, reduce-broadcast: how a bucket becomes its mean, instead of the strategy's own way.
  std::function<void(collectives::Collectives&, std::size_t bucket, collectives::Buffer,
                     std::string_view label)>
      average = nullptr;
};

// One strategy: what it is called, how it behaves and how it is made. Each is described in the file that
// implements it, and listed in strategies.inc.
struct Strategy {
  std::string name;
  std::string summary;
  bool one_worker_only = false;
  std::optional<ps::Consistency> servers = std::nullopt;  // has parameter servers, which keep this rule
  bool asynchronous = false;         // workers do not keep step: each is somewhere else in the run
  bool replicas_differ = false;      // replicas differ between synchronisations
  bool hybrid = false;               // only embedding tables go to the servers
  bool shares_memory = false;        // on one host, in shared memory
  bool takes_hooks = false;          // Tuning::average may take the place of its own way
  bool takes_shards = false;         // adds up gradients in the order of a tree of shards (Tuning::shards)
  bool takes_uneven_inputs = false;  // workers may bring nothing to a step that others make
  std::optional<collectives::Algorithm> algorithm = std::nullopt;  // none: whichever is best, or asked for
  // Those settings of a run that are for single strategies (config/settings.cc) and that this one reads, by
  // their keys.
  std::vector<std::string_view> settings = {};
  bool compared_by_default = false;  // by `tutti compare`
  // That move gradients or parameters, bucket by bucket, in their order.
  std::vector<collectives::Operation> collectives = {};
  // After the first weights every step moves the same, by the collectives or to and from the servers, so that
  // it can be predicted (lab/traffic.h).
  bool same_traffic_every_step = false;
  // In words, for people: what moves gradients beside the collectives; none: nothing.
  std::function<std::string(const Tuning&)> other_way = nullptr;
  std::function<std::unique_ptr<Exchange>(const Parts&, const Tuning&)> make;
};

// In the order in which people are shown them.
const std::list<Strategy>& all_strategies();

// One more, from now on. Call it before anybody looks for one. Throws ConfigError if the name is taken.
void add_strategy(Strategy strategy);

// Throws ConfigError that lists the names.
const Strategy& find_strategy(std::string_view name);

// The collective algorithm that a strategy and --algorithm ask for; none: whatever is best. Throws
// ConfigError if the two do not fit.
std::optional<collectives::Algorithm> algorithm_of(const Strategy& strategy, std::string_view algorithm);

// How a worker looks at numbers that may be none.
FiniteOptions finite_options(const Strategy& strategy, const Tuning& tuning,
                             const collectives::Collectives& workers);

// Why embedding tables travel whole with these numbers; empty: they may go by rows.
std::string_view why_whole_tables(const Tuning& tuning);

// Why a strategy cannot add up in the order of a tree of shards, in words.
std::string_view why_no_shards(const Strategy& strategy);

// Whether embedding tables may travel as rows.
bool takes_rows(const Strategy& strategy, const Tuning& tuning);

std::unique_ptr<RunningExchange> make_exchange(const Strategy& strategy, const Parts& parts,
                                               const Tuning& tuning);

// A collective that moves gradients.
struct Collective {
  collectives::Operation operation{};
  collectives::Method method;
};
// Those that a bucket of this size takes part in, in their order; none where only servers or shared
// parameters move gradients.
std::vector<Collective> collectives_of(const Strategy& strategy, const collectives::Collectives& workers,
                                       const Tuning& tuning, std::uint64_t bucket_bytes);

// One line for people: what moves the gradients of this size in this world, and why.
std::string describe(const Strategy& strategy, const collectives::Collectives& workers, const Tuning& tuning,
                     std::uint64_t bucket_bytes);

}  // namespace tutti::exchange
