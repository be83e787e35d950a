// What a rank measures of its own steps.
#pragma once

#include <nlohmann/json.hpp>
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
  std::vector<double> loss;  // not a time: the mean over the rank's samples
};

// What a rank tells rank 0 at the end, and what rank 0 makes of all of them.
struct RankReport {
  double compute_ms = 0;
  double exchange_ms = 0;
  double exposed_exchange_ms = 0;
  double train_loss = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double seconds = 0;  // in those steps
  std::uint64_t bytes_sent = 0;
  std::string parameters_sha256;
  std::string samples_sha256;  // over the numbers of its samples, in their order
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankReport, compute_ms, exchange_ms, exposed_exchange_ms, train_loss,
                                   steps, samples, seconds, bytes_sent, parameters_sha256, samples_sha256)

}  // namespace tutti::train
