// Takes in a step's gradients, bucket by bucket, and has the parameters updated when they may be; for tables
// that servers update it keeps what they tell of the optimizer's state.
#pragma once

#include <vector>

#include "exchange/finite_guard.h"
#include "exchange/gradient_watch.h"
#include "exchange/update.h"
#include "grad/buckets.h"
#include "ps/contents.h"

namespace tutti::exchange {

// One thread at a time. Buckets and tables outlive it.
class Updater {
 public:
  // With `clip_norm` above 0 the gradient of all buckets together is at most so long when it is applied.
  Updater(grad::Buckets& buckets, const grad::Tables& tables, std::unique_ptr<Update> update,
          double clip_norm = 0, const FiniteOptions& finite = {});
  Updater(grad::Buckets& buckets, const grad::Tables& tables, const optim::Settings& settings,
          double clip_norm = 0, const FiniteOptions& finite = {})
      : Updater(buckets, tables, flat_update(buckets, settings), clip_norm, finite) {}

  // Step `t`, counted from 1, is next, at this learning rate.
  void begin_step(std::int64_t t, double lr);
  std::int64_t step() const { return t_; }
  double lr() const { return lr_; }

  // Takes a bucket's gradients: updates its parameters from them and clears them for the next step. At once;
  // or, where gradients are clipped or a step may be skipped, when the last bucket of the phase has come. A
  // phase with a gradient that cannot be used changes nothing then, and only clears.
  // A mean over all workers, each of whom has looked at its own.
  void apply(std::size_t bucket);
  // This worker's own gradients, at which nobody has looked. Throws NonFinite (exchange/finite_guard.h).
  void apply_own(std::size_t bucket);

  // Means that are applied from now on are multiplied by this first: of workers some may have brought
  // nothing.
  void scale_means(double factor) { mean_factor_ = factor; }

  // From now on gradients that were applied are not cleared: others are laid over them (drop_gradients of
  // grad/buckets.h).
  void keep_applied() { clears_ = false; }

  // Nothing is applied before the last bucket of a phase has come.
  bool waits_for_all() const { return clips() || finite_.skips() || !update_->by_bucket(); }

  // The phase in progress is not applied, whatever its gradients are. Only where steps may be skipped.
  void veto() { usable_ = false; }

  // Looks at every number before it leaves this worker; knows which steps were skipped.
  FiniteGuard& finite() { return finite_; }

  // Between steps: somebody sees this worker's gradients and their means from now on; null: nobody. Outlives
  // the updater.
  void watch(GradientWatch* watch) {
    watch_ = watch;
    finite_.watch(watch);
  }

  // Where servers apply the gradients, workers clip them to --clip-norm before they push: all gradients must
  // be here, and none may have left.
  bool clips() const { return clip_norm_ > 0; }
  void clip();

  // Of the step before, as it was before it was clipped; 0 where nothing is clipped or applied.
  double gradient_norm() const { return gradient_norm_; }

  // The optimizer's memory of one slot, by bucket (exchange/update.h).
  int slots() const { return static_cast<int>(slots_.size()); }
  std::string_view slot_name(int slot) const { return slots_[static_cast<std::size_t>(slot)].name; }
  std::vector<std::span<float>> slot(int slot) { return slots_[static_cast<std::size_t>(slot)].buckets; }
  // The same for tables. The memory is taken by the first call: only who tells or learns the state needs it.
  std::vector<std::span<float>> table_slot(int slot);
  using State = std::vector<ps::StateSlot>;
  State state();

 private:
  void take(std::size_t bucket, bool usable);
  void update(std::span<const std::size_t> buckets);
  double take_clip_factor();

  grad::Buckets& buckets_;
  const grad::Tables& tables_;
  const std::unique_ptr<Update> update_;
  const std::vector<Update::Slot> slots_;
  double clip_norm_ = 0;
  double mean_factor_ = 1;
  bool clears_ = true;
  double squares_ = 0;       // of the gradients that have come in this step
  std::size_t waiting_ = 0;  // buckets whose gradients have, of the phase
  bool usable_ = true;       // all of them are
  double gradient_norm_ = 0;
  FiniteGuard finite_;
  GradientWatch* watch_ = nullptr;
  std::int64_t t_ = 0;
  double lr_ = 0;
  std::vector<std::vector<std::vector<float>>> table_state_;  // slot, table, element
};

}  // namespace tutti::exchange
