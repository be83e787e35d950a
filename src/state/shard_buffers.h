// A module's running statistics where a step is computed shard by shard: what each shard would make of those
// before the step, and their mean in the order of the shards' tree. So they depend on neither the number of
// workers nor on which of them computed what.
#pragma once

#include <vector>

#include "base/shard_tree.h"
#include "collectives/collectives.h"
#include "state/buffers.h"

namespace tutti::state {

// Used by the trainer's thread. Buffers and engine outlive it.
class ShardBuffers {
 public:
  // This worker computes the shards that the tree gives it.
  ShardBuffers(const Buffers& buffers, const ShardTree& tree, collectives::Collectives& workers);

  void begin_step();
  // Around each shard of a phase, in their order: every one of them begins with what was there before.
  void begin_shard();
  void end_shard();
  // A phase is over, of which all shards have been seen. A collective call: on return all workers have the
  // mean; what is counted is the largest. Throws PeerLost, Timeout.
  void finish_phase();

 private:
  const Buffers& buffers_;
  const ShardTree tree_;
  const ShardRun run_;
  collectives::Collectives& workers_;
  std::vector<torch::Tensor> before_;
  // Nodes that cannot be added up here yet; what was measured of each, all buffers in one row; and what was
  // counted.
  std::vector<ShardNode> nodes_;
  std::vector<std::vector<double>> measured_;
  std::vector<std::int64_t> counted_;
  int done_ = 0;
};

}  // namespace tutti::state
