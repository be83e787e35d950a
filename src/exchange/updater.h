// An optimizer with its state, over buckets; for tables that servers update it keeps what they tell.
#pragma once

#include <vector>

#include "grad/buckets.h"
#include "optim/layerwise.h"
#include "optim/step.h"
#include "ps/client.h"

namespace tutti::exchange {

// One thread at a time. Buckets and tables outlive it.
class Updater {
 public:
  Updater(grad::Buckets& buckets, const grad::Tables& tables, const optim::Settings& settings);

  // Step `t`, counted from 1, is next, at this learning rate.
  void begin_step(std::int64_t t, double lr);
  std::int64_t step() const { return t_; }
  double lr() const { return lr_; }

  // Updates a bucket's parameters from its gradients, and clears those for the next step.
  void apply(std::size_t bucket);

  // The optimizer's memory of one slot, by bucket; slots and their names are in optim/step.h.
  int slots() const { return static_cast<int>(state_.size()); }
  std::string_view slot_name(int slot) const { return optim::slot_name(settings_, slot); }
  std::vector<std::span<float>> slot(int slot);
  // The same for tables. The memory is taken by the first call: only who tells or learns the state needs it.
  std::vector<std::span<float>> table_slot(int slot);
  using State = std::vector<ps::StateSlot>;
  State state();

 private:
  grad::Buckets& buckets_;
  const grad::Tables& tables_;
  optim::Settings settings_;
  std::vector<std::vector<optim::Layer>> layers_;  // by bucket
  std::int64_t t_ = 0;
  double lr_ = 0;
  std::vector<std::vector<std::vector<float>>> state_;        // slot, bucket, element
  std::vector<std::vector<std::vector<float>>> table_state_;  // slot, table, element
};

}  // namespace tutti::exchange
