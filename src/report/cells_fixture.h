// Cells of comparisons that never ran, for tests.
#pragma once

#include "report/cell.h"

namespace tutti::report::fixture {

inline nlohmann::json summary(double speed, double exposed = 0, double accuracy = 0.9) {
  return {{"model", "net"},
          {"data", "made up"},
          {"strategy", "ring"},
          {"workers", 2},
          {"steps", 10},
          {"samples_per_second", speed},
          {"step_ms", {{"median", 1.0}}},
          {"compute_ms", 5.0},
          {"exchange_ms", 1.0},
          {"exposed_exchange_ms", exposed},
          {"bytes_sent_per_worker", 1000},
          {"test_accuracy", accuracy},
          {"parameters_sha256", "a"},
          {"replicas_sha256", {"a", "a"}},
          {"config", nlohmann::json::object()}};
}

inline Cell cell(const std::string& strategy, int workers, double speed, double exposed = 0,
                 double accuracy = 0.9) {
  return {strategy, workers, strategy + "-" + std::to_string(workers), summary(speed, exposed, accuracy), ""};
}

// Of several repeats.
inline Cell cell(const std::string& strategy, int workers, const std::vector<double>& speeds) {
  Cell c{strategy, workers, "", nullptr, ""};
  for (const double s : speeds) c.repeats.push_back({std::to_string(s), summary(s)});
  take_median_repeat(c);
  return c;
}

}  // namespace tutti::report::fixture
