// A model under one strategy, put together: its tables and buckets, what a full gradient does to them, and
// the exchange, which hears of every gradient from backward.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exchange/running_exchange.h"
#include "exchange/shard_gradients.h"
#include "exchange/strategy.h"
#include "exchange/table_rows.h"
#include "exchange/updater.h"

namespace tutti::exchange {

// What a replica is made of; all of it outlives the replica.
struct ReplicaContext {
  torch::nn::Module& module;
  const Strategy& strategy;
  const Tuning& tuning;
  std::size_t bucket_bytes = 0;
  net::Transport& everyone;           // workers, then servers
  collectives::Collectives& workers;  // the workers alone
  observe::Trace& trace;
};

// One thread uses it, but for what backward announces on its own. Stays where it was made.
class Replica {
 public:
  // The parameters that lie in buckets, beside these tables.
  using Parameters = std::function<std::vector<grad::Parameter>(const grad::Tables&)>;
  using MakeUpdate = std::function<std::unique_ptr<Update>(grad::Buckets&)>;

  // All workers make theirs at the same time. The tables of these names are exchanged by rows.
  Replica(const ReplicaContext& context, std::span<const std::string> by_rows, const Parameters& parameters,
          const MakeUpdate& make_update);

  // From now on the exchange hears of each gradient that is final, on backward's thread. Call once.
  struct Announcing {
    std::function<bool(grad::ParamId)> gradient;  // whether it hears of this one
    std::function<bool(std::size_t table)> rows;  // the same for a table's
    std::function<void(const std::function<void()>& announce)> around = nullptr;  // sees what is thrown
  };
  void announce(Announcing announcing);

  // Gradients of one more shard, not this worker's last, are there: they make room for the next one's.
  void set_aside_shard(std::size_t phase);

  grad::Tables tables;
  grad::Buckets buckets;
  Updater updater;
  std::optional<ShardGradients> shards;  // where Tuning::shards asks for them
  const std::unique_ptr<RunningExchange> exchange;

 private:
  Announcing announcing_;
};

}  // namespace tutti::exchange
