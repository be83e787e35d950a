// A step that is computed shard by shard: which of its shards a process is at, and what is done around each.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>

#include "base/shard_tree.h"
#include "exchange/replica.h"
#include "state/buffers.h"
#include "state/shard_buffers.h"

namespace tutti::library {

// One thread uses it. Replica, module and engine outlive it; the replica has shards.
class ShardWork {
 public:
  // Throws ConfigError that names a buffer of the module of which no mean can be formed.
  ShardWork(exchange::Replica& replica, const torch::nn::Module& module, collectives::Collectives& workers,
            std::uint64_t seed);
  ShardWork(const ShardWork&) = delete;
  ShardWork& operator=(const ShardWork&) = delete;

  // Those of every step.
  ShardRun run() const { return replica_.shards->run(); }

  // The first, or the one after that which has ended, begins; `step` counts from 0. Throws ConfigError where
  // one has begun and not ended, and where all have.
  void begin(std::int64_t step);
  // The one that has begun ends: unless it is the last, its gradients make room for the next one's.
  void end();

  // Throws ConfigError where none has begun: whose shard this parameter's gradient is, nobody knows.
  void require_open(const std::string& parameter) const;
  // The one that has begun is the last: what backward brings now is final.
  bool at_last() const { return next_ + 1 == run().last; }

  // Throws ConfigError that says which have not been computed.
  void require_all() const;
  // When the exchange has finished the step: buffers become those of all shards. A collective call.
  void finish_step();

 private:
  exchange::Replica& replica_;
  const state::Buffers buffers_;
  state::ShardBuffers shard_buffers_;
  const std::uint64_t seed_;
  int next_ = run().first;  // the one that has begun, or will
  bool open_ = false;
};

}  // namespace tutti::library
