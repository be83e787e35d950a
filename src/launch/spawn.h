// One worker process as the launcher starts it.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace tutti::launch {

struct Spawned {
  int pid = -1;
  UniqueFd pidfd;
  UniqueFd out;    // the worker's standard output
  UniqueFd error;  // its standard error
};

// Starts program with arguments. The child keeps standard input from /dev/null, the `inherit` descriptors by
// their numbers, dies with the calling thread's process, ignores terminal signals (it has a process group of
// its own), runs on `cores` if there are any, and in the namespace of the descriptor `network` if there is
// one. Throws RunError.
Spawned spawn(const std::string& program, const std::vector<std::string>& arguments,
              const std::vector<int>& inherit, const std::vector<int>& cores = {}, int network = -1);

}  // namespace tutti::launch
