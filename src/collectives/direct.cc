// Direct: everyone talks to everyone, in as few rounds as there can be.
//
// Rank r owns part r of the buffer. In the first round everyone sends each owner its part, and the owner
// combines what arrives, always in ascending order of sender. In the second everyone sends its finished part
// to all.
//
//                 part 0   part 1   part 2                   part 0   part 1   part 2
//       rank 0    (own)    -> 1     -> 2           rank 0    -> all
//       rank 1    -> 0     (own)    -> 2           rank 1             -> all
//       rank 2    -> 0     -> 1     (own)          rank 2                      -> all
//                 round 1: reduce-scatter                    round 2: all-gather
//
// Each rank sends as much as in a ring, in 2 rounds instead of 2 (N - 1), but in N - 1 messages at once:
// right where peers read each other's memory, and between two ranks. Broadcast and reduce are one round, from
// or to the root.
#include "collectives/algorithms.h"

namespace tutti::collectives {
namespace {

// Sends start with the next rank, so that not everyone starts with rank 0.
void add_reduce_scatter(Schedule& schedule, const Task& t) {
  Round& round = schedule.rounds.emplace_back();
  for (int k = 1; k < t.world; ++k) {
    const int peer = wrap(t.rank + k, t.world);
    send(round, peer, equal_chunk(t.count, t.world, peer));
  }
  for (int peer = 0; peer < t.world; ++peer) {
    if (peer == t.rank) continue;
    receive(round, peer, equal_chunk(t.count, t.world, t.rank), Arrival::combine);
  }
}

void add_all_gather(Schedule& schedule, const Task& t) {
  Round& round = schedule.rounds.emplace_back();
  for (int k = 1; k < t.world; ++k) {
    send(round, wrap(t.rank + k, t.world), equal_chunk(t.count, t.world, t.rank));
  }
  for (int peer = 0; peer < t.world; ++peer) {
    if (peer == t.rank) continue;
    receive(round, peer, equal_chunk(t.count, t.world, peer), Arrival::replace);
  }
}

void add_broadcast(Schedule& schedule, const Task& t) {
  Round& round = schedule.rounds.emplace_back();
  if (t.rank != t.root) return receive(round, t.root, {0, t.count}, Arrival::replace);
  for (int k = 1; k < t.world; ++k) send(round, wrap(t.root + k, t.world), {0, t.count});
}

void add_reduce(Schedule& schedule, const Task& t) {
  Round& round = schedule.rounds.emplace_back();
  if (t.rank != t.root) return send(round, t.root, {0, t.count});
  for (int peer = 0; peer < t.world; ++peer) {
    if (peer != t.root) receive(round, peer, {0, t.count}, Arrival::combine);
  }
}

Schedule direct_schedule(const Task& t) {
  Schedule schedule;
  switch (t.operation) {
    case Operation::all_reduce:
    case Operation::barrier:
      add_reduce_scatter(schedule, t);
      add_all_gather(schedule, t);
      break;
    case Operation::reduce_scatter:
      add_reduce_scatter(schedule, t);
      break;
    case Operation::all_gather:
      add_all_gather(schedule, t);
      break;
    case Operation::broadcast:
      add_broadcast(schedule, t);
      break;
    case Operation::reduce:
      add_reduce(schedule, t);
      break;
  }
  return schedule;
}

}  // namespace

AlgorithmInfo direct() {
  return {.name = "direct", .summary = "everyone to everyone, in two rounds", .schedule = direct_schedule};
}

}  // namespace tutti::collectives
