// The folder of a run: whose it is, and what a new run may do in it.
//
//   run.json       the marker: {"kind": "tutti run", "format": 1, "version": "...", "config": {...}}
//   .tutti-lock    held while a run writes here (folder_lock.h)
//   the others     what a run leaves behind (docs/architecture.md)
//
//                    empty     with a marker               without one
//   train            begins    is refused                  is refused
//   --overwrite      begins    clears the run, begins      begins beside what is there (a)
//   --resume DIR               goes on                     goes on from checkpoints (b)
//   --resume auto    begins    goes on, or clears it (c)   as --resume, or is refused
//
//   (a) refused where something there has one of a run's names
//   (b) 0.1.0 wrote no marker
//   (c) without a finished checkpoint; then it begins
//
// Only files and folders with a run's names are ever removed, and only where the folder is known to be a
// run's.
#pragma once

#include <string>
#include <vector>

#include "train/prepare.h"

namespace tutti::train {

inline constexpr const char* kMarker = "run.json";

// The settings of the run that the folder belongs to. Throws DataError if it is none's.
config::TrainConfig config_in_marker(const std::filesystem::path& folder);

// Whether the run goes on from a checkpoint of the folder that it writes into.
bool goes_on_in_place(const config::TrainConfig& config);

// Throws ConfigError in one line, with the ways out, if this run may not begin in config.out. Only looks.
void require_usable_folder(const config::TrainConfig& config);

// Begins the run in its folder, as the table above says: makes it, marks it, sweeps it, and clears or rewinds
// what is there. Returns what a user should be told, a line each. The caller holds the folder's lock. Throws
// ConfigError if the folder may not be used or cannot be written, std::filesystem::filesystem_error.
std::vector<std::string> make_run_folder(const Setup& setup);

// Takes a run's folder back to the step that setup goes on from, so that its files stay one series: forgets
// what metrics.jsonl and samples/ say of later steps, removes summary, page and trace, and renames later
// checkpoints to step-N.superseded. Returns what a user should be told. The caller holds the lock. Throws
// RunError, std::filesystem::filesystem_error.
std::vector<std::string> rewind_run_folder(const Setup& setup);

// Removes what processes that were killed while they wrote have left in a run's folder: step-N.partial and
// the temporary files behind atomic writes. The caller holds the lock. Ignores errors.
void sweep_run_folder(const std::filesystem::path& folder);

}  // namespace tutti::train
