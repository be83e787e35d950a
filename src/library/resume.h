// Reads what library/save.h has written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "library/trained.h"

namespace tutti::library {

struct RestoredSteps {
  std::filesystem::path path;    // the step folder
  std::int64_t model_steps = 0;  // of all processes together, where they do not keep step
  std::int64_t own_steps = 0;    // that this process brought gradients to
  std::string serialised;        // rank 0's: its optimizer, where that is called as it is
};

// Both are collective calls; where one fails in one process all throw (library/agree.h).
//
// Finds the newest whole checkpoint of a folder, or takes the one step folder that is named, and fills what
// rank 0 has; its exchange starts with that. Throws DataError if there is none or it is of another model,
// ConfigError if it is of another optimizer or cannot be gone on from with this strategy and this number of
// processes.
RestoredSteps restore_first(const Trained& trained, const std::string& folder);

// Then, when all have rank 0's buffers and untrained parameters: fills what the others have for themselves,
// and optimizers that are called as they are. A process that was not there then has rank 0's. Throws
// DataError.
void restore_others(const Trained& trained, const RestoredSteps& resumed);

}  // namespace tutti::library
