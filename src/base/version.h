// The version that `tutti --version`, summaries and checkpoints carry.
#pragma once

namespace tutti {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace tutti
