#include "lab/run.h"

#include "emulate/cluster.h"
#include "report/summary.h"
#include "train/plan.h"

namespace tutti::lab {

namespace {

launch::Outcome tidied(launch::Outcome outcome, const std::string& run_folder) {
  if (outcome.exit_code != 0) train::remove_unfinished_checkpoints(run_folder);
  return outcome;
}

}  // namespace

launch::Outcome run_training(const train::Prepared& run, const std::string& program,
                             const launch::Listener& listener) {
  const auto& config = run.setup.config;
  launch::JobSpec spec;
  spec.program = program;
  spec.workers = config.workers;
  spec.task = kTrainTask;
  spec.payload = run.setup;
  spec.transport = config.transport;
  spec.busy_threads = config.threads + 1;  // backward computes while the exchange waits
  spec.timeout = train::timeout_of(config);
  spec.heartbeat_timeout = train::heartbeat_timeout_of(config);
  spec.servers = config.servers;
  spec.colocate = config.colocate;
  spec.local_memory = config.local_aggregation;
  for (const UniqueFd& fd : run.keep_open) spec.inherit.push_back(fd.get());
  std::optional<emulate::Cluster> cluster;
  if (const auto emulation = config::parse_emulation(config.emulate)) {
    cluster.emplace(*emulation, launch::processes_of(spec));
  }
  train::make_run_folder(run.setup);
  if (!cluster) return tidied(launch::run(spec, listener), config.out);
  auto [outcome, traffic] = cluster->run(spec, listener);
  if (outcome.exit_code == 0) {
    auto summary = report::read_summary(config.out);
    summary["emulated"] = std::move(traffic);
    write_file_atomically(std::filesystem::path(config.out) / "summary.json", summary.dump(2) + "\n");
  }
  return tidied(outcome, config.out);
}

}  // namespace tutti::lab
