#include "lab/run.h"

#include "train/plan.h"

namespace tutti::lab {

launch::Outcome run_training(const train::Prepared& run, const std::string& program,
                             const launch::Listener& listener) {
  const auto& config = run.setup.config;
  train::make_run_folder(run.setup);
  launch::JobSpec spec;
  spec.program = program;
  spec.workers = config.workers;
  spec.task = kTrainTask;
  spec.payload = run.setup;
  spec.transport = config.transport;
  spec.busy_threads = config.threads + 1;  // backward computes while the exchange waits
  spec.timeout = train::timeout_of(config);
  spec.servers = config.servers;
  spec.colocate = config.colocate;
  spec.local_memory = config.local_aggregation;
  for (const UniqueFd& fd : run.keep_open) spec.inherit.push_back(fd.get());
  const auto outcome = launch::run(spec, listener);
  if (outcome.exit_code != 0) train::remove_unfinished_checkpoints(config.out);
  return outcome;
}

}  // namespace tutti::lab
