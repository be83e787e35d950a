// Who is to blame when a job fails: a pure function of how each rank ended.
//
// When one rank dies, the others fail too, each with its own story. The reader wants the first cause, named
// once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/job.h"

namespace tutti::launch {

struct RankEnd {
  Rank rank{};
  bool server = false;                            // holds parameters
  bool running = true;                            // has not ended by itself
  bool stopped = false;                           // the kernel says it is stopped (SIGSTOP, SIGTSTP)
  int exit_code = 0;                              // if it exited
  int signal = 0;                                 // if it was killed
  std::string found = {};                         // why the launcher killed it, if it did (launch/watch.h)
  int order = 0;                                  // first to end is 1
  std::optional<Failure> failure = std::nullopt;  // what it reported
};

struct Diagnosis {
  int exit_code = 0;
  std::string line;               // empty if all is well
  bool would_fail_again = false;  // numbers that are not finite come again
};

// The exit code is the first failing rank's, 1 for a rank that was killed.
Diagnosis diagnose(const std::vector<RankEnd>& ends);

}  // namespace tutti::launch
