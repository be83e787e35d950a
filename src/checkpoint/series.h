// The checkpoints of a folder as a series: which one to go on from, and which no longer belong to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tutti::checkpoint {

struct Origin {
  Checkpoint checkpoint;           // whole: every digest was verified
  std::vector<std::string> notes;  // newer ones that are damaged, and how
};

// The newest whole checkpoint of a run folder, or the one step folder that is named. Nothing if a run folder
// has no finished checkpoint. Throws DataError if the named one is damaged, or all are.
std::optional<Origin> find_origin(const std::filesystem::path& run_or_step);

// A checkpoint under another name, step-N.superseded.
struct SetAside {
  std::filesystem::path from;
  std::filesystem::path to;
};

// Renames the checkpoints of a run that are later than `step`, which the run goes on from: beside a new
// series, those of the old one would be taken for its own. Throws RunError,
// std::filesystem::filesystem_error.
std::vector<SetAside> set_aside_later(const std::filesystem::path& run, std::int64_t step);

}  // namespace tutti::checkpoint
