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
#include "net/transport.h"
#include "rendezvous/meeting.h"

namespace tutti::mpi {

// Why this process cannot use MPI; empty: it can.
std::string why_not();

// The library that is linked, e.g. "Open MPI v4.1.4".
std::string library();

// The processes that mpirun has started, in the order of MPI_COMM_WORLD. One a process, made before any
// engine, and used by one thread at a time, engines included.
class Meeting : public rendezvous::Meeting {
 public:
  // Initialises MPI. Throws RunError.
  static std::unique_ptr<Meeting> join();

  // Ends MPI for this process, as a collective call. A process that fails does not call it: mpirun then ends
  // the others.
  virtual void finish() = 0;
};

// Vendor collectives among the first ranks of MPI_COMM_WORLD, which are those of the transport. A collective
// call. The transport outlives the engine. Throws RunError.
std::unique_ptr<collectives::Collectives> make_engine(net::Transport& transport, Clock::duration timeout);

}  // namespace tutti::mpi
