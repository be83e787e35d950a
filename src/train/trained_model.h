// The network that a worker trains, and what it consists of.
#pragma once

#include <memory>
#include <vector>

#include "state/buffers.h"
#include "state/snapshot.h"
#include "train/run_context.h"

namespace tutti::train {

struct TrainedModel {
  // Every worker makes the same one, from the run's seed.
  explicit TrainedModel(const RunContext& run);

  const std::shared_ptr<models::Model> network;
  const std::vector<models::Phase> phases;
  const state::Buffers buffers;
  // Whether the workers' buffers do between two evaluations: not where they are those of all shards.
  const state::Differs differs;
  // Those that are the same on all workers after every step.
  const state::NamedTensors shared_buffers;

  // Makes them equal on all workers, where they differ. A collective call.
  void average_buffers(collectives::Collectives& workers) const {
    if (differs != state::Differs::nothing) buffers.average(workers);
  }
};

}  // namespace tutti::train
