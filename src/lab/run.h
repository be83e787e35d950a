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

// summary.json of a run folder. Throws DataError.
nlohmann::json read_summary(const std::string& run_folder);

// What makes a run no plain training: "paced at 20 ms, slowed 3:5, emulated
// hosts=6,link=1gbit"; else empty.
std::string conditions_of(const nlohmann::json& summary);

// Whether all replicas of a summary hold the same parameters.
bool replicas_agree(const nlohmann::json& summary);

}  // namespace tutti::lab
