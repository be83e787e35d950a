// Runs schedules. Two ways, same sums up to the order of additions: by messages over a transport, or in place
// in memory that all ranks see.
#pragma once

#include <vector>

#include "collectives/communicator.h"

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
};

// `place` is where in its arena a rank has the buffer.
net::Announcement make_announcement(Operation operation, Algorithm algorithm, const Buffer& buffer,
                                    ReduceOp op, Rank root, std::size_t place);

// `scratch` grows as needed and is kept by the caller from call to call.
void run_by_messages(net::Transport& transport, const Work& work, std::vector<std::byte>& scratch);

// An all-reduce of whole buffers: partners send each other all they have, and each combines what comes with
// its own; then the same with partners twice as far away, until all have all. Between two ranks that is one
// round, and as many bytes as any other way; among more it is the fewest rounds, for buffers that are tiny.
// In worlds that are no power of two some ranks first hand theirs to a neighbour, and get the result back.
// For what does not depend on the order of two; what comes waits in `scratch` until what was there has left.
// Averages are left to be divided.
void all_reduce_by_doubling(net::Transport& transport, const Work& work, std::vector<std::byte>& scratch);
// The bytes that this rank sends in it.
std::uint64_t bytes_sent_by_doubling(Rank rank, int world, std::uint64_t bytes);

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

// A direct all-reduce in place, in one pass over memory: when all have come, each rank combines its part of
// all buffers and writes the result into all of them; then all wait for all. Averages are divided in the same
// pass.
std::uint64_t all_reduce_one_pass(const WorkInPlace& work, std::uint64_t clock);

// The same for a buffer that is small enough for one_shot(): each lays a copy where all can read it, and when
// all have come everyone combines the copies for itself. There are two places for copies, from `copies_at` in
// the arena, used in turn: who lays the next but one has seen everybody come for the next, and so be through
// with this.
std::uint64_t all_reduce_in_one_shot(const WorkInPlace& work, std::size_t copies_at, std::uint64_t clock);

}  // namespace tutti::collectives
