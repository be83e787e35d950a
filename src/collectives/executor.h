// Runs schedules. Two ways, same sums up to the order of additions: by messages over a transport, or in place
// in memory that all ranks see.
#pragma once

#include <vector>

#include "collectives/algorithms.h"
#include "collectives/collectives.h"
#include "net/transport.h"

namespace tutti::collectives {

struct Work {
  const Schedule& schedule;
  Buffer buffer;
  ReduceOp op;
  net::Activity doing;
};

// A work in memory that all ranks see. `clock` is the count of ticks that all ranks have behind them,
// `number` that of works, `announcement` what ranks have to agree about.
struct WorkInPlace : Work {
  net::PeerMemory& memory;
  Rank self;
  int world;
  std::uint64_t number;
  net::Announcement announcement;
  std::size_t copies_at;  // where in its arena a rank has room for two copies of kOneShotBytes
};

// `place` is where in its arena a rank has the buffer.
net::Announcement make_announcement(Operation operation, Algorithm algorithm, const Buffer& buffer,
                                    ReduceOp op, Rank root, std::size_t place);

// `scratch` grows as needed and is kept by the caller from call to call.
void run_by_messages(net::Transport& transport, const Work& work, std::vector<std::byte>& scratch);

// The beginning of a work in place: waits until all have come, and makes sure that it is the same for all.
// Returns the clock.
std::uint64_t begin_together(const WorkInPlace& work, std::uint64_t clock);

}  // namespace tutti::collectives
