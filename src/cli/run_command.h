// What a worker of `tutti emulate` does: it becomes the user's program.
#pragma once

#include "launch/job.h"

namespace tutti::cli {

inline constexpr const char* kCommandTask = "command";

// Returns only by throwing: ConfigError if there is no such program.
[[noreturn]] void become_command(const launch::WorkerJob& job);

}  // namespace tutti::cli
