// A network from a shared library (tutti/network.h). It is code that is run: SECURITY.md.
#pragma once

#include <filesystem>

#include "models/scored.h"

namespace tutti::models {

// Takes data as it is. The library stays loaded. Throws DataError that names the file if it cannot be loaded,
// was made for another tutti or another libtorch, or has nothing to train.
ModelInfo plugin_model(const std::filesystem::path& file, ScoreLoss loss);

}  // namespace tutti::models
