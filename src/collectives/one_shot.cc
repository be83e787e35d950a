// One shot: for buffers so small that only the waits for others cost. Each rank lays a copy where all can
// read it, and when all have come everyone combines the copies for itself: one wait instead of two, for N
// times the reading.
//
// There are two places for copies, used in turn: who lays the next but one has seen everybody come for the
// next, and so be through with this.
#include <cstring>

#include "collectives/choose.h"
#include "collectives/executor.h"

namespace tutti::collectives {
namespace {

Schedule one_shot_schedule(const Task& t) {
  Schedule schedule;
  Round& round = schedule.rounds.emplace_back();
  for (int peer = 0; peer < t.world; ++peer) {
    if (peer == t.rank) continue;
    send(round, peer, {0, t.count});
    receive(round, peer, {0, t.count}, Arrival::combine);
  }
  return schedule;
}

std::uint64_t run_one_shot(const WorkInPlace& work, std::uint64_t clock) {
  const std::size_t copy_at = work.copies_at + work.number % 2 * kOneShotBytes;
  const auto copy_of = [&](int rank) { return work.memory.arena(Rank{rank}).data() + copy_at; };
  std::memcpy(copy_of(to_int(work.self)), work.buffer.data, work.buffer.bytes());
  clock = begin_together(work, clock);
  // In the order of ranks, for the same bits everywhere.
  std::memcpy(work.buffer.data, copy_of(0), work.buffer.bytes());
  for (int r = 1; r < work.world; ++r) {
    combine(work.buffer.type, work.op, work.buffer.data, copy_of(r), work.buffer.count);
  }
  if (work.op == ReduceOp::average) divide(work.buffer.type, work.buffer.data, work.buffer.count, work.world);
  return clock;
}

}  // namespace

AlgorithmInfo one_shot() {
  return {.name = "one-shot",
          .summary = "everyone combines copies of all buffers for itself; for small ones in shared memory",
          .schedule = one_shot_schedule,
          .runs = AlgorithmInfo::Runs::in_place,
          .all_reduce_only = true,
          .can_serve =
              [](const Call& call) {
                return call.bytes * static_cast<std::uint64_t>(call.world) <= kOneShotBytes;
              },
          .in_place = run_one_shot};
}

}  // namespace tutti::collectives
