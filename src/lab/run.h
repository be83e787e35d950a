// One training run as a job of processes on this host.
#pragma once

#include <string>

#include "launch/launcher.h"
#include "train/prepare.h"

namespace tutti::lab {

// The task that workers of run_training are given.
inline constexpr const char* kTrainTask = "train";

// Starts the workers of a prepared run and waits for their end. `program` is this executable.
launch::Outcome run_training(const train::Prepared& run, const std::string& program,
                             const launch::Listener& listener);

}  // namespace tutti::lab
