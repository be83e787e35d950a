// What MPI offers a job: its collectives as an engine, and a meeting of the processes that mpirun has
// started.
//
// No header of MPI is seen outside this room. Where the build found no MPI, why_not() says so and nothing
// else may be called.
#pragma once

#include <memory>
#include <string>

#include "base/deadline.h"
#include "collectives/collectives.h"
#include "config/launchers.h"
#include "net/transport.h"
#include "rendezvous/meeting.h"

namespace tutti::mpi {

// Why this process cannot use MPI; empty: it can.
std::string why_not();

// The library that is linked, e.g. "Open MPI v4.1.4".
std::string library();

// Whether this library can reach the processes among which a launcher has placed this one.
bool can_reach(const config::Placement& placement);

// How threads of this process call MPI: one after another, or at once where MPI can, which costs every call a
// little. At once is what a connector's transports need, in every process.
enum class Threads { one_at_a_time, at_once };

// The processes that mpirun has started, in the order of MPI_COMM_WORLD. One a process, made before any
// engine, and used by one thread at a time, engines included. Initialises MPI; finish() ends it, as a
// collective call. Throws RunError.
std::unique_ptr<rendezvous::Meeting> join(Threads threads);

// Vendor collectives among the first ranks of MPI_COMM_WORLD, which are those of the transport. A collective
// call. The transport outlives the engine. Throws RunError.
std::unique_ptr<collectives::Collectives> make_engine(net::Transport& transport, Clock::duration timeout);

}  // namespace tutti::mpi
