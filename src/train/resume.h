// Which checkpoint a run goes on from, and whether it may.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/series.h"
#include "train/plan.h"
#include "train/prepare.h"

namespace tutti::train {

// The word in place of a folder: go on in --out if there is something, begin if there is not.
inline constexpr std::string_view kAuto = "auto";

// A run folder itself, or the one that RUN/checkpoints/step-N lies in; empty for a step folder elsewhere.
std::filesystem::path run_folder_of(const std::filesystem::path& run_or_step);

// The config that the checkpoint to resume was written under, but for what it had chosen (Setup). Throws
// DataError if there is none.
config::TrainConfig config_of_run(const std::string& run_or_step);

// Lets a run that config.resume asks for go on: fills prepared.setup, prepared.notes and prepared.complete.
// setup.config and setup.data_sha256 are known. Throws ConfigError if the run there is another one or has
// nothing left to do, DataError.
void prepare_resume(const RunPlan& plan, Prepared& prepared);

// For another try of a run that failed: from the newest whole checkpoint that it has saved, else as it began.
// `setup` is as the run began. Returns what a user should be told of damaged ones. Throws DataError if all
// checkpoints in its folder are damaged.
std::vector<std::string> go_on_from_newest(Setup& setup);

}  // namespace tutti::train
