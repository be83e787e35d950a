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

// The buffer lies in the rank's arena, at the same offset on every rank. `clock` is the count of ticks that
// all ranks have behind them; returns the count after this. A rank ticks when it has come and after each
// round.
//
// A rank that comes announces the work, ticks, waits until all have come and holds what each of them
// announced against its own: if they differ, that is a ProtocolError, before a byte is read, and on every
// rank, because none waits for more than that all have come. A rank may be in the next work while another
// still looks at this one, but not in the one after that; so two announcements are kept.
//
// Round k of a rank: wait until whoever it receives from has come and done its rounds before k, combine or
// copy straight out of their buffers, tick, and wait until whoever it sends to has done round k, because only
// then may its own buffer change. A round without data for a rank still ticks, so that all clocks agree.
std::uint64_t run_in_place(const WorkInPlace& work, std::uint64_t clock);

// The beginning of a work in place: waits until all have come, and makes sure that it is the same for all.
// Returns the clock.
std::uint64_t begin_together(const WorkInPlace& work, std::uint64_t clock);

}  // namespace tutti::collectives
