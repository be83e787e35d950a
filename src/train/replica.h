// A worker's copy of the model with all that keeps it like the others: flat memory, optimizer, exchange.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exchange/strategy.h"
#include "exchange/table_rows.h"
#include "models/model.h"
#include "state/snapshot.h"

namespace tutti::train {

// What a replica is made of; all of it outlives the replica.
struct ReplicaContext {
  models::Model& model;
  const std::vector<models::Phase>& phases;  // the model's
  const exchange::Strategy& strategy;
  exchange::Tuning& tuning;
  std::size_t bucket_bytes = 0;
  net::Transport& everyone;           // workers, then servers
  collectives::Collectives& workers;  // the workers alone
  observe::Trace& trace;
};

class Replica {
 public:
  // All workers make theirs at the same time. The tables of these names are exchanged by rows.
  Replica(const ReplicaContext& context, const std::vector<std::string>& by_rows);

  grad::Tables tables;
  grad::Buckets buckets;
  exchange::Updater updater;
  std::unique_ptr<exchange::Architecture> exchange;
};

}  // namespace tutti::train
