// The learning rate of each step.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti::optim {

// Gradual warm-up (Goyal et al. 2017): N workers make the batch N times as large, so the rate should be N
// times as large too, but not from the first step on.
struct WarmUp {
  double base_lr = 0.01;
  int workers = 1;
  bool scale_lr = false;   // without it the rate is base_lr throughout
  std::int64_t steps = 0;  // how long the rise takes; 0: at the target from the start
};

// The rate of `step`, counted from 0: linear from base_lr at step 0 to base_lr * workers at step `steps`,
// then flat.
inline double scaled_lr(const WarmUp& warm_up, std::int64_t step) {
  if (!warm_up.scale_lr) return warm_up.base_lr;
  const double target = warm_up.base_lr * warm_up.workers;
  if (step >= warm_up.steps) return target;
  const double risen =
      static_cast<double>(std::max<std::int64_t>(step, 0)) / static_cast<double>(warm_up.steps);
  return warm_up.base_lr + (target - warm_up.base_lr) * risen;
}

}  // namespace tutti::optim
