// --check-replicas K: every K steps workers compare digests of their parameters, and the run ends where they
// are not the same. With --reproducible also of running statistics, which are those of all shards everywhere.
//
// A digest is 64 bits a tensor (base/xxh64.h), over the flat memory in which its parameters lie: no copy, and
// workers lay them out alike. What they tell each other is one number each; only where those differ do they
// tell every tensor's. Embedding tables that go by rows are left out: between two synchronisations each
// worker has those rows current that it reads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "config/train_config.h"
#include "exchange/strategy.h"
#include "grad/buckets.h"
#include "observe/trace.h"
#include "state/buffers.h"

namespace tutti::train {

// Throws ConfigError that says why, if workers of this run need not have the same parameters after a step.
void require_same_replicas(const exchange::Strategy& strategy, const config::TrainConfig& config);

// Between steps, on the trainer's thread of every worker. Engine and trace outlive it.
class ReplicaCheck {
 public:
  // Nothing is ever due where `every` is 0.
  ReplicaCheck(collectives::Collectives& workers, std::int64_t every, observe::Trace& trace)
      : workers_(workers), every_(every), trace_(trace) {}

  // After this step; blocks until all workers have told. `beside` the parameters: buffers that must be the
  // same as well. Where replicas differ every worker calls `before_end`, and when all of them have, or one of
  // them is lost, it throws RunError, the same on all of them but for the text of what else has failed, which
  // it adds.
  void after_step(std::int64_t done, grad::Buckets& buckets, const state::NamedTensors& beside = {},
                  const std::function<void()>& before_end = {});

 private:
  collectives::Collectives& workers_;
  const std::int64_t every_;
  observe::Trace& trace_;
};

// One digest a tensor, in the model's order.
std::vector<std::uint64_t> parameter_digests(grad::Buckets& buckets);

// Who is not as the others, and in which tensor first: `digests` are by rank, and in each by tensor. Nothing
// if all are the same. Where more than half of the workers agree the others are named; else everyone is, with
// its digest. Pure.
std::optional<std::string> differing_replicas(const std::vector<std::string>& tensors,
                                              const std::vector<std::vector<std::uint64_t>>& digests);

}  // namespace tutti::train
