// The learning rate of each step: a pure function of it, so that a run that resumes has the rates that the
// undisturbed one has.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tutti::optim {

// Gradual warm-up (Goyal et al. 2017): a batch that is N times as large should have a rate that is N times as
// large too, but not from the first step on.
struct WarmUp {
  double base_lr = 0.01;
  std::int64_t growth = 1;  // of the batch: workers times micro batches
  bool scale_lr = false;    // without it the rate is base_lr throughout
  std::int64_t steps = 0;   // how long the rise takes; 0: at the target from the start
};

// The rate of `step`, counted from 0: linear from base_lr at step 0 to base_lr * growth at step `steps`,
// then flat.
inline double scaled_lr(const WarmUp& warm_up, std::int64_t step) {
  if (!warm_up.scale_lr) return warm_up.base_lr;
  const double target = warm_up.base_lr * static_cast<double>(warm_up.growth);
  if (step >= warm_up.steps) return target;
  const double risen =
      static_cast<double>(std::max<std::int64_t>(step, 0)) / static_cast<double>(warm_up.steps);
  return warm_up.base_lr + (target - warm_up.base_lr) * risen;
}

enum class Decay { constant, step, cosine };

// What becomes of the rate after that.
struct RateSchedule {
  WarmUp warm_up = {};
  Decay decay = Decay::constant;
  std::int64_t drop_every = 1;  // step: after so many steps, again and again,
  double gamma = 0.1;           //       the rate is multiplied by this
  std::int64_t end = 0;  // cosine: from the end of the warm-up to here the rate falls along half a wave
  double min_lr = 0;     //         to this, and stays there
};

inline double rate(const RateSchedule& s, std::int64_t step) {
  const double lr = scaled_lr(s.warm_up, step);
  switch (s.decay) {
    case Decay::constant:
      return lr;
    case Decay::step: {
      const std::int64_t drops = step / s.drop_every;
      return lr * std::pow(s.gamma, static_cast<double>(drops));
    }
    case Decay::cosine: {
      const std::int64_t begin = s.warm_up.scale_lr ? s.warm_up.steps : 0;
      if (step >= s.end) return s.min_lr;
      if (step <= begin) return lr;
      const double way = static_cast<double>(step - begin) / static_cast<double>(s.end - begin);
      return s.min_lr + (lr - s.min_lr) * (1 + std::cos(std::numbers::pi * way)) / 2;
    }
  }
  return lr;
}

}  // namespace tutti::optim
