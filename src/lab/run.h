// One training run as a job of processes, on this host or on several.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/hosts.h"
#include "lab/restart.h"
#include "launch/hosts.h"
#include "launch/launcher.h"
#include "train/prepare.h"

namespace tutti::lab {

// The task that workers of run_training are given.
inline constexpr const char* kTrainTask = "train";

// In its payload, where several hosts take part: where the launcher looks for data.
inline constexpr const char* kDataRoots = "data_roots";

// Workers fill the hosts in the order in which they are named; servers are dealt to them in turn.
std::vector<launch::HostPart> parts_of(const std::vector<config::Host>& hosts, int workers, int servers);

// Runs a job to its end, as launch::run does.
using RunJob = std::function<launch::Outcome(const launch::JobSpec&, const launch::Listener&)>;

// Takes the run folder, starts the workers of a prepared run and waits for their end; starts them again where
// the config allows it. `program` is this executable, and `run_job` runs it where no
// cluster is emulated. run.lock is held from then on, and run.setup is as the
// last try had it. What happens to folder and job is told as notes, and kept in metrics.jsonl. Adds the
// launcher's part to the summary of a run that has ended well. Throws ConfigError if another run has the
// folder, RunError.
launch::Outcome run_training(train::Prepared& run, const std::string& program,
                             const launch::Listener& listener, const Pause& pause = pause_unless_interrupted,
                             const RunJob& run_job = launch::run);

}  // namespace tutti::lab
