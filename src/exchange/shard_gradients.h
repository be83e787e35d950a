// A worker's gradients, shard by shard, added up in the one order of their tree (base/shard_tree.h).
//
// A worker computes the shards of its run one after another, each into the first place of the buckets. What
// is done is set aside and added to its brother as soon as that is done, too, so that few sums wait at a
// time:
//
//     shard    0      1          2            3              with one worker, of 4 shards
//     waiting  0      0-1        0-1, 2       (0-1, 2)       the last one stays where backward has left it,
//                                                            and takes in what waits: 0-3
//
// What cannot be added up here, because brothers are at other workers, stays in places where the exchange
// finds it (ShardTree::held_of).
#pragma once

#include <vector>

#include "base/shard_tree.h"
#include "collectives/collectives.h"
#include "exchange/finite_guard.h"
#include "exchange/gradient_watch.h"
#include "grad/buckets.h"

namespace tutti::exchange {

// Shards are set aside by the trainer's thread; each bucket is completed once a step, by any one thread, when
// its last gradient is final. The buckets outlive it and have ShardTree::places_of(world) places.
class ShardGradients {
 public:
  // `finite` looks at every shard's gradient before it is added to others; null: nobody does.
  ShardGradients(grad::Buckets& buckets, int shards, Rank rank, int world, FiniteGuard* finite = nullptr);

  const ShardTree& tree() const { return tree_; }
  // The shards that this worker computes.
  ShardRun run() const { return run_; }
  // How many nodes of the tree they leave, in the first places.
  int nodes() const { return static_cast<int>(held_.size()); }
  // In the order of their shards, where each lies.
  const std::vector<ShardTree::Held>& held() const { return held_; }

  // Gradients of one more shard, not the last, lie in the buckets of this phase. They are zero on return.
  // Throws NonFinite, as complete() does.
  void set_aside(std::size_t phase);
  // The same for the last: on return this worker's nodes lie in the bucket's places.
  void complete(std::size_t bucket);
  // Who sees the gradient of each shard from now on; null: nobody. It outlives the steps that it sees.
  void watch(GradientWatch* watch) { watch_ = watch; }

  // For Collectives::average_shards.
  std::vector<collectives::Buffer> places(std::size_t bucket);

 private:
  struct Waiting {
    std::vector<ShardNode> nodes;  // that cannot be added to each other yet; the i-th is in place i + 1
    std::vector<std::vector<float>> beside;  // memory for more than the bucket has places
    int done = 0;                            // shards of this step
  };
  std::span<float> place_of(std::size_t bucket, std::size_t waiting);
  void set_aside_bucket(std::size_t bucket);

  grad::Buckets& buckets_;
  const ShardTree tree_;
  const ShardRun run_;
  const std::vector<ShardTree::Held> held_;
  FiniteGuard* const finite_;
  std::vector<Waiting> waiting_;  // by bucket
  GradientWatch* watch_ = nullptr;
};

}  // namespace tutti::exchange
