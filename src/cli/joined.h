// Commands in processes that somebody else has started, as mpirun does, instead of our launcher.
#pragma once

#include <functional>

#include "launch/launcher.h"
#include "rendezvous/meeting.h"

namespace tutti::cli {

// Whether mpirun has started this process. Throws ConfigError if so and this build knows no MPI.
bool started_by_others();

// Calls `command` as one of those processes, with their meeting, and ends the meeting if all went well. What
// is wrong with the input is said by rank 0 alone. The result is the exit code.
int in_meeting(const std::function<int(rendezvous::Meeting&)>& command);

// As launch::run() in such processes: rank 0 brings the spec, all others null. The others' failures are
// printed here; rank 0's outcome is the caller's to tell.
launch::Outcome run_in_meeting(rendezvous::Meeting& meeting, const launch::JobSpec* spec,
                               const launch::Listener& listener);

}  // namespace tutti::cli
