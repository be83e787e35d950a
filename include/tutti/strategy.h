// A strategy of one's own: how the gradients of all processes become one model.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tutti/export.h"
#include "tutti/workers.h"

namespace tutti {

// What a strategy works with in one process. Parameters and gradients lie in buckets, float32 in one
// dimension; the tensors are this memory itself, cut alike in every process.
class TUTTI_API Training {
 public:
  virtual ~Training() = default;
  virtual int buckets() const = 0;
  virtual torch::Tensor gradients(int bucket) = 0;
  virtual torch::Tensor parameters(int bucket) = 0;
  // The optimizer takes what gradients(bucket) holds; nothing is to be relied on there after it. At most once
  // for each bucket in a step. Where gradients are clipped, a step may be skipped or the optimizer is called
  // as it is, it waits for the last bucket; then all are updated in a step, or none.
  virtual void update(int bucket) = 0;
  virtual Workers& workers() = 0;
};

// One process's part of a training. Calls come from the thread that trains; what they throw, backward or
// Distributed's calls throw.
class TUTTI_API Strategy {
 public:
  virtual ~Strategy() = default;

  // Before the first step; all processes have the parameters of rank 0.
  virtual void start() {}

  // This bucket's gradients are final for this step. Backward waits meanwhile; what is long and can be done
  // beside it belongs on a thread of its own. Buckets come in the order of backward, the same everywhere as
  // long as all compute the same graph.
  virtual void on_gradients(int /*bucket*/) {}

  // All gradients are final. Ends the step: every bucket is updated, or left as it is. The next step's
  // gradients are laid over these.
  virtual void finish_step() = 0;

  // After the last step: on return all processes have the same parameters.
  virtual void finish() {}
};

// Makes the part of one process; the Training outlives it.
using MakeStrategy = std::function<std::unique_ptr<Strategy>(Training&)>;

// From now on DistributedOptions::strategy may be this name. Every process calls it, before it trains. Throws
// where the name is taken.
TUTTI_API void add_strategy(const std::string& name, const std::string& summary, MakeStrategy make);

}  // namespace tutti
