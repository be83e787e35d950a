// What a full gradient does to parameters.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "grad/buckets.h"
#include "optim/settings.h"

namespace torch::optim {
class Optimizer;
}

namespace tutti::exchange {

// One thread at a time.
class Update {
 public:
  virtual ~Update() = default;

  // Whether a bucket's parameters can be updated as soon as its gradients are there; else all of a phase at
  // once.
  virtual bool by_bucket() const = 0;

  // Step `t`, counted from 1, at this learning rate: the parameters of these buckets change by their
  // gradients.
  virtual void step(std::span<const std::size_t> buckets, std::int64_t t, double lr) = 0;

  // What it remembers from step to step, which a checkpoint keeps: named slots with a float for every
  // parameter, by bucket.
  struct Slot {
    std::string_view name;
    std::vector<std::span<float>> buckets;
  };
  virtual std::vector<Slot> slots() = 0;
};

// One of our optimizers (optim/settings.h) as a flat loop over each bucket. The buckets outlive it.
std::unique_ptr<Update> flat_update(grad::Buckets& buckets, const optim::Settings& settings);

// Any optimizer of torch's interface, whose parameters are those of the buckets. It keeps its own state,
// learning rates and count of steps. The optimizer outlives it.
std::unique_ptr<Update> torch_update(torch::optim::Optimizer& optimizer);

}  // namespace tutti::exchange
