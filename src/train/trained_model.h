// The network that a worker trains, and what it consists of.
#pragma once

#include <memory>
#include <vector>

#include "state/buffers.h"
#include "train/run_context.h"

namespace tutti::train {

struct TrainedModel {
  // Every worker makes the same one, from the run's seed.
  explicit TrainedModel(const RunContext& run);

  const std::shared_ptr<models::Model> network;
  const std::vector<models::Phase> phases;
  const state::Buffers buffers;
};

}  // namespace tutti::train
