// What a model keeps beside its parameters: running statistics of batch norm, which no gradient changes. Each
// worker gathers its own from the batches that it sees.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "collectives/collectives.h"
#include "models/model.h"

namespace tutti::train {

class Buffers {
 public:
  // The model outlives it.
  explicit Buffers(const models::Model& model);

  bool empty() const { return views_.empty(); }
  // float32 or int64, by name.
  const std::vector<std::pair<std::string, torch::Tensor>>& views() const { return views_; }

  // Makes them equal on all workers: the mean of what was measured, the largest of what was counted.
  void average(collectives::Collectives& all) const;
  // Makes them equal to rank 0's.
  void broadcast(collectives::Collectives& all) const;

  // Their values, by view, and back: forward changes them also in a step that is skipped then.
  std::vector<torch::Tensor> copy() const;
  void restore(const std::vector<torch::Tensor>& values) const;

 private:
  std::vector<std::pair<std::string, torch::Tensor>> views_;
};

}  // namespace tutti::train
