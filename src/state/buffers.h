// What a module keeps beside its parameters: running statistics of batch norm, masks, counts, which no
// gradient changes. Each worker gathers its own statistics from the batches that it sees.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "collectives/collectives.h"

namespace tutti::state {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

class Buffers {
 public:
  Buffers() = default;  // none
  // The module outlives it. Throws ConfigError that names a buffer which is not on the CPU, holds no real
  // numbers, or has elements that share memory.
  explicit Buffers(const torch::nn::Module& module);

  bool empty() const { return views_.empty(); }
  // By name; those that are defined.
  const NamedTensors& views() const { return views_; }

  // Makes them equal on all workers: the mean of what was measured, the largest of what was counted.
  void average(collectives::Collectives& all) const;
  // Makes them equal to rank 0's.
  void broadcast(collectives::Collectives& all) const;

  // Their values, by view, and back: forward changes them also in a step that is skipped then.
  std::vector<torch::Tensor> copy() const;
  void restore(const std::vector<torch::Tensor>& values) const;

 private:
  NamedTensors views_;
};

}  // namespace tutti::state
