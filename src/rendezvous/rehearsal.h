// A whole rendezvous in one process, with ranks that are threads: for tests and benchmarks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.h"
#include "net/dial.h"

namespace tutti::rendezvous {

struct Rehearsal {
  // What each rank was told, by rank.
  std::vector<std::vector<net::Endpoint>> told;
  // From the moment when all ranks began to call until the last one had its list.
  double seconds = 0;
};

// Where rank r says that it listens.
net::Endpoint made_up_endpoint(int rank);

// Makes connections that say nothing, then lets all ranks call at once. Returns when all have met. Throws
// RunError where this process may not have that many descriptors, and what join() throws.
Rehearsal rehearse(int ranks, int idle_connections, Clock::duration timeout);

}  // namespace tutti::rendezvous
