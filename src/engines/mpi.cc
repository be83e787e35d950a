#include "mpi/mpi.h"

#include "engines/engines.h"

namespace tutti::engines {
namespace {

std::unique_ptr<collectives::Collectives> make_mpi(net::Transport& transport, const EngineOptions& options) {
  return mpi::make_engine(transport, options.timeout);
}

}  // namespace

EngineInfo mpi() {
  return {.name = "mpi",
          .summary = "the collectives of the MPI whose mpirun has started the processes",
          .needs_mpirun = true,
          .why_not = mpi::why_not,
          .make = make_mpi};
}

}  // namespace tutti::engines
