// Ring: every rank sends to its right neighbour and receives from its left one, all links busy all the time.
//
// The buffer is cut into N chunks. To reduce-scatter, chunk p starts at rank p + 1 and travels once around,
// gathering each rank's contribution, until it rests complete at rank p. To all-gather, it travels around
// once more. With N = 3, each column a rank, ">" what it sends to the right next:
//
//     reduce-scatter                        all-gather
//     rank 0   rank 1   rank 2              rank 0   rank 1   rank 2
//     > p2     > p0     > p1                > p0     > p1     > p2       complete chunks
//     > p1     > p2     > p0                > p2     > p0     > p1
//       p0       p1       p2  complete        all      all      all
//
// 2 (N - 1) rounds, and each rank sends 2 (N - 1) / N of the buffer, the least that an all-reduce can do.
//
// Broadcast and reduce open the ring into a chain from or to the root, and cut the buffer into blocks that
// follow one another down the chain, so that all links work at once:
//
//     round   root -> 1    1 -> 2    2 -> 3
//       0       a
//       1       b            a
//       2       c            b         a
//       3                    c         b
//       4                              c
#include <algorithm>

#include "collectives/algorithms.h"

namespace tutti::collectives {
namespace {

// A chain of H links and B blocks takes B + H - 1 rounds for the work of B: with 8 blocks a link it wastes
// 1/8.
constexpr std::size_t kBlocksPerLink = 8;
// Below this (32 KiB of float32) the cost of a message outweighs that of its elements, and cutting on is a
// loss.
constexpr std::size_t kLeastBlock = 8192;

void add_ring_reduce_scatter(Schedule& schedule, const Task& t) {
  const int n = t.world;
  for (int k = 0; k < n - 1; ++k) {
    Round& round = schedule.rounds.emplace_back();
    send(round, wrap(t.rank + 1, n), equal_chunk(t.count, n, wrap(t.rank - 1 - k, n)));
    receive(round, wrap(t.rank - 1, n), equal_chunk(t.count, n, wrap(t.rank - 2 - k, n)), Arrival::combine);
  }
}

void add_ring_all_gather(Schedule& schedule, const Task& t) {
  const int n = t.world;
  for (int k = 0; k < n - 1; ++k) {
    Round& round = schedule.rounds.emplace_back();
    send(round, wrap(t.rank + 1, n), equal_chunk(t.count, n, wrap(t.rank - k, n)));
    receive(round, wrap(t.rank - 1, n), equal_chunk(t.count, n, wrap(t.rank - 1 - k, n)), Arrival::replace);
  }
}

int blocks_for(const Task& t) {
  const std::size_t most = kBlocksPerLink * static_cast<std::size_t>(t.world - 1);
  return static_cast<int>(std::clamp<std::size_t>(t.count / kLeastBlock, 1, most));
}

// `place` counts the ranks along the chain from where data enters; `before` and `after` are its neighbours'
// ranks.
void add_chain(Schedule& schedule, const Task& t, int place, int before, int after, Arrival arrival) {
  const int blocks = blocks_for(t);
  for (int k = 0; k < blocks + t.world - 2; ++k) {
    Round& round = schedule.rounds.emplace_back();
    const int out = k - place;
    const int in = out + 1;
    if (place < t.world - 1 && 0 <= out && out < blocks)
      send(round, after, equal_chunk(t.count, blocks, out));
    if (place > 0 && 0 <= in && in < blocks)
      receive(round, before, equal_chunk(t.count, blocks, in), arrival);
  }
}

Schedule ring_schedule(const Task& t) {
  const int left = wrap(t.rank - 1, t.world);
  const int right = wrap(t.rank + 1, t.world);
  const int from_root = wrap(t.rank - t.root, t.world);
  Schedule schedule;
  switch (t.operation) {
    case Operation::all_reduce:
    case Operation::barrier:
      add_ring_reduce_scatter(schedule, t);
      add_ring_all_gather(schedule, t);
      break;
    case Operation::reduce_scatter:
      add_ring_reduce_scatter(schedule, t);
      break;
    case Operation::all_gather:
      add_ring_all_gather(schedule, t);
      break;
    case Operation::broadcast:
      add_chain(schedule, t, from_root, left, right, Arrival::replace);
      break;
    case Operation::reduce:
      add_chain(schedule, t, t.world - 1 - from_root, right, left, Arrival::combine);
      break;
  }
  return schedule;
}

}  // namespace

AlgorithmInfo ring() {
  return {.name = "ring", .summary = "neighbours only, least traffic", .schedule = ring_schedule};
}

}  // namespace tutti::collectives
