// A job's messages carried by MPI, for clusters whose links MPI knows better than TCP does: --transport mpi.
#pragma once

#include <vector>

#include "rendezvous/meeting.h"

namespace tutti::mpi {

// As Meeting::connector(), among the processes of MPI_COMM_WORLD. MPI was initialised for threads that call
// it at once.
rendezvous::Connector make_connector(const std::vector<int>& process_of);

}  // namespace tutti::mpi
