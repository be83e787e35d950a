// Sees a step's gradients at the two places where they change hands: before a worker's own leave it, and when
// their mean has come back, before the update.
//
//   backward ── own_gradient(bucket) ── the exchange ── mean_gradient(bucket) ── the update
//
// For records of a step (train/step_record.h), and for faults that tests plant (train/step_watch.h).
#pragma once

#include <cstddef>

namespace tutti::exchange {

// Each call is made once a step and bucket, when the bucket is full; what it leaves there goes on.
class GradientWatch {
 public:
  virtual ~GradientWatch() = default;

  // On whichever thread sends the bucket, while others may be at other buckets. By shards it is a sum of
  // several.
  virtual void own_gradient(std::size_t bucket) = 0;

  // Where a worker computes several shards, instead: the gradient of one of them, before it is added to
  // others. On the trainer's thread, but for the worker's last shard, which is seen by whoever sends the
  // bucket.
  virtual void shard_gradient(std::size_t bucket, int shard) = 0;

  // On the trainer's thread. Where servers update, or each worker takes its own gradients, nobody here sees a
  // mean.
  virtual void mean_gradient(std::size_t bucket) = 0;
};

}  // namespace tutti::exchange
