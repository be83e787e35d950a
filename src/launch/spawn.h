// One worker process as the launcher starts it.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file.h"

namespace tutti::launch {

struct Spawned {
  int pid = -1;
  UniqueFd pidfd;
  UniqueFd out;    // the worker's standard output
  UniqueFd error;  // its standard error
  UniqueFd in;     // its standard input, if it was to have one
};

struct SpawnOptions {
  std::vector<int> inherit = {};  // descriptors that the child keeps, by their numbers
  std::vector<std::string> environment =
      {};  // "NAME=value", beside ours and instead of what we have of these names; "NAME": not that one
  std::vector<int> cores = {};  // to run on; none: all
  int network = -1;             // descriptor of the network namespace to live in; -1: ours
  bool input = false;           // it reads what we write; else its standard input is /dev/null
  bool is_ours = false;         // it ignores the signals that we ignore; in others' programs they do as usual
};

// Starts a program, given as a path, with arguments. It dies with the calling thread's process, and ignores
// terminal signals (it has a process group of its own). Throws RunError.
Spawned spawn(const std::string& program, const std::vector<std::string>& arguments,
              const SpawnOptions& options);

// What a program printed until its end.
struct Ran {
  int exit_code = 0;  // 128 and the signal, if one has ended it
  std::string out;
  std::string error;
};

// Starts a program likewise and blocks until it ends and nobody writes any more. Throws RunError if it takes
// longer, having killed it.
Ran run_to_end(const std::string& program, const std::vector<std::string>& arguments,
               const SpawnOptions& options, Clock::duration at_most);

}  // namespace tutti::launch
