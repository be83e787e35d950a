// In the place of the room's other files where the build found no MPI.
#include "base/error.h"
#include "mpi/mpi.h"

namespace tutti::mpi {

std::string why_not() {
  return "this build has no MPI; install libopenmpi-dev and build again";
}

std::string library() {
  return "none";
}

bool can_reach(const config::Placement&) {
  return false;
}

std::unique_ptr<rendezvous::Meeting> join(Threads) {
  throw RunError(why_not());
}

std::unique_ptr<collectives::Collectives> make_engine(net::Transport&, Clock::duration) {
  throw RunError(why_not());
}

}  // namespace tutti::mpi
