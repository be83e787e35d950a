// What a Distributed will do, decided before anything is made: which strategy with which numbers, which of a
// module's parameters go which way.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <string>
#include <vector>

#include "exchange/strategy.h"
#include "grad/buckets.h"
#include "grad/tables.h"
#include "library/member.h"
#include "library/recognise.h"
#include "state/buffers.h"
#include "tutti/distributed.h"

namespace tutti::library {

struct Plan {
  const exchange::Strategy& strategy;
  Recognised optimizer;
  int servers = 0;
  exchange::Tuning tuning = {};
  std::vector<Rank> seen_by_servers = {};  // exchange::pushers_first
  std::uint64_t seed = 0;                  // of shards

  bool has_shards() const { return tuning.shards > 0; }
};

// Throws ConfigError where the strategy does not exist or does not fit, saying why.
Plan plan_of(const DistributedOptions& options, Member& member, const torch::nn::Module& module,
             const torch::optim::Optimizer& optimizer);

// Embeddings that are trained and nobody else shares: what has two names, or is not the optimizer's, is a
// parameter like all others.
std::vector<std::string> tables_of(const torch::nn::Module& module, const torch::optim::Optimizer& optimizer);

// Those of the module that the optimizer updates, but for `tables`: others are not trained, whatever their
// gradients. Throws ConfigError if the optimizer has some that are none of the module's.
std::vector<grad::Parameter> parameters_of(const torch::nn::Module& module,
                                           const torch::optim::Optimizer& optimizer,
                                           const grad::Tables& tables);

// Parameters that are not trained, because they are frozen or not the optimizer's; each once.
state::NamedTensors untrained_parameters(const torch::nn::Module& module,
                                         const torch::optim::Optimizer& optimizer);

// What must be the same in every process, as a text: before anything is made, and of what was made.
std::string describe(const Plan& plan, const DistributedOptions& options,
                     const torch::optim::Optimizer& optimizer);
std::string describe(const grad::Buckets& buckets, const grad::Tables& tables);

}  // namespace tutti::library
