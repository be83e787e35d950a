// What `train` shares with the other commands that run trainings.
#pragma once

#include <span>

#include "cli/progress.h"
#include "launch/launcher.h"
#include "train/prepare.h"

namespace tutti::cli {

// What `tutti train` would make of these arguments; workers are 0 where they do not say how many. Throws
// ConfigError.
config::TrainConfig parse_train(const std::vector<std::string>& arguments);

// Checks a config against this machine: data folders and threads from the environment, a folder name from the
// clock. `started_on`: train::prepare().
train::Prepared prepare_here(const config::TrainConfig& config, std::span<const int> started_on = {});

// The launcher's way of telling: lines with their rank, events as progress.
launch::Listener listener_for(Display& display);

}  // namespace tutti::cli
