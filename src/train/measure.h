// What a rank measures of its own steps.
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.h"

namespace tutti::train {

inline double milliseconds(Clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

// The q-quantile by nearest rank; 0 of nothing.
double quantile(std::vector<double> values, double q);

// All in milliseconds, one entry a step.
struct StepSeries {
  std::vector<double> step;
  std::vector<double> compute;
  std::vector<double> exchange;
  std::vector<double> exposed;
  std::vector<double> finite_check;  // looking for non-finite numbers, seen or hidden
  std::vector<double> loss;          // not a time: the mean over the rank's samples
  std::int64_t samples = 0;          // of all steps
};

}  // namespace tutti::train
