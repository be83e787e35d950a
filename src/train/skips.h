// The steps that --on-nonfinite skip leaves out, as one worker sees them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "exchange/finite_guard.h"
#include "state/buffers.h"

namespace tutti::train {

// Used between steps, by the trainer's thread.
class Skips {
 public:
  // `together`, if given, are workers that all skip the same steps. What a user should know goes to `say`, a
  // line at a time. Buffers and engine outlive it.
  Skips(const state::Buffers& buffers, collectives::Collectives* together,
        std::function<void(std::string)> say)
      : buffers_(buffers), together_(together), say_(std::move(say)) {}

  // Around every step, which is counted from 1. Forward has changed running statistics also in a step that is
  // skipped: those before it come back. Throws NonFinite after so many skipped steps in a row that the
  // parameters must be beyond repair.
  void before_step(const exchange::FiniteGuard& guard);
  void after_step(const exchange::FiniteGuard& guard, std::int64_t step, Rank rank);

  std::int64_t count() const { return count_; }
  // What was wrong in the first of them.
  const std::string& first() const { return first_; }

 private:
  std::string who_found(const exchange::FiniteGuard& guard, Rank rank) const;

  const state::Buffers& buffers_;
  collectives::Collectives* const together_;
  const std::function<void(std::string)> say_;
  std::vector<torch::Tensor> kept_;  // the buffers before the step
  std::int64_t count_ = 0;
  std::int64_t in_a_row_ = 0;
  std::string first_;
};

}  // namespace tutti::train
