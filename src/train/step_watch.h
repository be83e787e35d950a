// Sees every step of a worker from inside: plants the fault of --flip-bit, and records what --record-digests
// and --record-step ask for, in this order.
#pragma once

#include <optional>

#include "config/flip_bit.h"
#include "exchange/gradient_watch.h"
#include "exchange/replica.h"
#include "train/run_context.h"
#include "train/step_record.h"

namespace tutti::train {

// Throws ConfigError if workers of this run have no mean in which a bit could be flipped.
void require_flippable(const exchange::Strategy& strategy, const config::TrainConfig& config);

// Made before the replicas that it watches, and ended after them. Where there is nothing to do nobody calls
// it.
class StepWatch final : public exchange::GradientWatch {
 public:
  StepWatch(const RunContext& run, const state::Buffers& buffers);

  // Once, when the first weights are there.
  void start(exchange::Replica& replica);
  // Before the gradients of a step, counted from 1; the replica may be another than the last step's. Throws
  // ConfigError if the tensor whose bit is to be flipped is not in its buckets.
  void begin_step(std::int64_t step, exchange::Replica& replica);
  // The exchange has finished it.
  void end_step();

  void own_gradient(std::size_t bucket) override;
  void shard_gradient(std::size_t bucket, int shard) override;
  void mean_gradient(std::size_t bucket) override;

 private:
  void flip_at(config::FlipBit::Site site, std::size_t bucket);

  std::optional<config::FlipBit> flip_;  // of this rank
  std::optional<StepRecord> record_;
  exchange::Replica* replica_ = nullptr;
  std::int64_t step_ = 0;
};

}  // namespace tutti::train
