// An optimizer with its state, over buckets.
#pragma once

#include <vector>

#include "grad/buckets.h"
#include "optim/step.h"

namespace tutti::exchange {

// One thread at a time. The buckets outlive it.
class Updater {
 public:
  Updater(grad::Buckets& buckets, const optim::Settings& settings);

  // Step `t`, counted from 1, is next, at this learning rate.
  void begin_step(std::int64_t t, double lr);
  std::int64_t step() const { return t_; }
  double lr() const { return lr_; }

  // Updates a bucket's parameters from its gradients, and clears those for the next step.
  void apply(std::size_t bucket);

  // The optimizer's memory of one slot, by bucket; slots and their names are in optim/step.h.
  int slots() const { return static_cast<int>(state_.size()); }
  std::string_view slot_name(int slot) const { return optim::slot_name(settings_.kind, slot); }
  std::vector<std::span<float>> slot(int slot);
  using State = std::vector<std::vector<std::span<float>>>;  // by slot, then bucket
  State state();

 private:
  grad::Buckets& buckets_;
  optim::Settings settings_;
  std::int64_t t_ = 0;
  double lr_ = 0;
  std::vector<std::vector<std::vector<float>>> state_;  // slot, bucket, element
};

}  // namespace tutti::exchange
