// Evaluations of a run: what came of them, and whether that was the target.
#pragma once

#include <functional>
#include <optional>

#include "train/evaluate.h"
#include "train/run_context.h"
#include "train/target.h"

namespace tutti::train {

// One thread calls it. Run and model outlive it.
class Evaluator {
 public:
  Evaluator(RunContext& run, models::Model& model);

  // Training begins: seconds to the target count from here.
  void start() { since_ = Clock::now(); }

  // After `step` steps, whose number a user is told. A collective call of `all`, or, if null, this rank's
  // alone. `before_batch` is called before each of its batches. Throws NonFinite where the loss is none,
  // unless such steps are skipped.
  void evaluate(std::int64_t step, collectives::Collectives* all, const std::function<void()>& before_batch);

  // After so many steps, and after their evaluation if there was one: whether the run ends because its target
  // is reached. Everyone says the same after the same step, or, where workers do not keep step, when rank 0's
  // word comes. A collective call where replicas differ.
  bool ends_run(std::int64_t steps, bool evaluated);

  const std::optional<Evaluation>& last() const { return last_; }
  const std::optional<Target>& target() const { return target_; }
  const std::optional<double>& seconds_to_target() const { return reached_after_; }

 private:
  void refuse_nonfinite(std::int64_t step) const;

  RunContext& run_;
  models::Model& model_;
  const std::optional<Target> target_;
  Clock::time_point since_;
  std::optional<Evaluation> last_;
  std::optional<double> reached_after_;
};

}  // namespace tutti::train
