// The version that `tutti --version`, summaries and checkpoints carry.
#pragma once

#include "tutti/version.h"

namespace tutti {

inline constexpr const char* kVersion = TUTTI_VERSION;

}  // namespace tutti
