// Runs of studies that never ran, for tests.
#pragma once

#include "lab/traffic.h"
#include "report/cells_fixture.h"

namespace tutti::lab::fixture {

struct Run {
  std::string model = "net";
  std::string strategy;
  int workers = 1;
  double step_ms = 1;
  double accuracy = 0.9;
};

inline Cell run_of(const Run& run) {
  const double speed = 32.0 * run.workers * 1000 / run.step_ms;
  Cell cell = report::fixture::cell(run.strategy, run.workers, speed, 0, run.accuracy);
  cell.model = run.model;
  cell.summary["workers"] = run.workers;
  cell.summary["strategy"] = run.strategy;
  cell.summary["batch_per_worker"] = 32;
  cell.summary["step_ms"]["median"] = run.step_ms;
  return cell;
}

// Three paced steps on links of 1 Gbit/s, whose traffic is as predicted.
inline Cell emulated(const std::string& strategy, int workers, int servers, double model, double step_ms) {
  Cell cell = run_of({.strategy = strategy, .workers = workers, .step_ms = step_ms});
  auto& s = cell.summary;
  config::TrainConfig config;
  config.strategy = strategy;
  config.workers = workers;
  config.servers = servers;
  s["config"] = config;
  s["steps"] = 3;
  s["pace_ms"] = 1000;
  s["parameter_bytes"] = model;
  s["bytes_sent_per_worker"] = 3 * 2.0 * (workers - 1) / workers * model;
  s["emulated"] = {{"hosts", workers + servers}, {"link", "1gbit"}, {"per_host", nlohmann::json::array()}};
  for (const auto& host : predict_traffic(shape_of(s))) {
    s["emulated"]["per_host"].push_back(
        {{"bytes_sent", host.bytes_sent}, {"packets_sent", host.packets_sent}});
  }
  return cell;
}

}  // namespace tutti::lab::fixture
