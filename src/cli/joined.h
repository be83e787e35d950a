// Commands in processes that somebody else has started, as mpirun does, instead of our launcher.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "config/launchers.h"
#include "launch/launcher.h"
#include "launch/process_signals.h"
#include "mpi/mpi.h"
#include "rendezvous/meeting.h"

namespace tutti::cli {

// The place among others that a launcher has given this process; nothing where none has, or where it has
// started this one alone, without MPI: then our own launcher starts what is asked for. Tells a conflict
// between launchers. Throws ConfigError.
std::optional<config::Placement> started_by_others(const config::JoinSettings& settings);

// Throws ConfigError where another launcher has started this process as one of several: each of them would
// start all that `command` starts.
void require_own_launcher(std::string_view command);

// Throws ConfigError, with the reason, where messages cannot travel so (--transport): mpi is for processes
// that mpirun has started.
void require_transport(const std::string& transport);

// Calls `command` as one of those processes, with their meeting, and ends the meeting if all went well. What
// is wrong with the input is said by rank 0 alone. `threads`: how these call MPI, where MPI is how the
// processes meet. The result is the exit code. Throws ConfigError, RunError.
int in_meeting(const config::Placement& placement, const config::JoinSettings& settings, mpi::Threads threads,
               const std::function<int(rendezvous::Meeting&)>& command);

// What in_meeting() does where the command cannot begin: tells the others, who may be in any gather of
// launch::join(). Returns the exit code.
int call_off(rendezvous::Meeting& meeting, const std::exception& why);

// As launch::run() in such processes: rank 0 brings the spec, all others null. The others' failures are
// printed here; rank 0's outcome is the caller's to tell.
launch::Outcome run_in_meeting(rendezvous::Meeting& meeting, const launch::JobSpec* spec,
                               const launch::Listener& listener, launch::ProcessSignals* signals = nullptr);

}  // namespace tutti::cli
