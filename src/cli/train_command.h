// Running one training with its progress shown; what `train` and `compare` share.
#pragma once

#include "cli/progress.h"
#include "lab/run.h"
#include "launch/launcher.h"
#include "train/prepare.h"

namespace tutti::cli {

// What `tutti train` would make of these arguments; workers are 0 where they do not say how many. Throws
// ConfigError.
config::TrainConfig parse_train(const std::vector<std::string>& arguments);

// Checks a config against this machine: data folders and threads from the environment, a folder name from the
// clock.
train::Prepared prepare_here(const config::TrainConfig& config);

// Runs to the end, as lab::run_training; workers' output is printed with their rank, events as progress.
launch::Outcome run_shown(train::Prepared& run, Display& display, const lab::RunJob& run_job = launch::run);

// The launcher's way of telling: lines with their rank, events as progress.
launch::Listener listener_for(Display& display);

}  // namespace tutti::cli
