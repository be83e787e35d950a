// Tree: a binomial tree over the ranks, numbered from the root. N = 6:
//
//             0
//           / | \                up:   round 1   1->0   3->2   5->4
//          1  2  4                     round 2   2->0
//             |  |                     round 3   4->0
//             3  5               down: the same rounds backwards, arrows turned
//
// The subtree of a rank is a run of ranks, [v, v + reach), so that the chunks of a subtree are one run. Up
// and down take log2 N rounds each, however small the buffer is; for large ones the root's link is the
// bottleneck.
//
//     reduce          up, combining          broadcast    down
//     all_reduce      up, combining, down    all_gather   up with the subtree's chunks, down
//     reduce_scatter  up, combining, down with the subtree's chunks
#include <algorithm>
#include <utility>

#include "collectives/algorithms.h"

namespace tutti::collectives {
namespace {

enum class Load { everything, chunks_of_subtree };

class Tree {
 public:
  explicit Tree(const Task& t) : task_(t), place_(wrap(t.rank - t.root, t.world)) {}

  void up(Load load, Arrival arrival) {
    for (int reach = 1; reach < task_.world; reach *= 2) {
      Round& round = schedule_.rounds.emplace_back();
      if (is_child(reach)) send(round, rank_at(place_ - reach), chunk(load, place_, reach));
      if (is_parent(reach)) {
        receive(round, rank_at(place_ + reach), chunk(load, place_ + reach, reach), arrival);
      }
    }
  }

  void down(Load load) {
    int reach = 1;
    while (reach * 2 < task_.world) reach *= 2;
    for (; reach > 0; reach /= 2) {
      Round& round = schedule_.rounds.emplace_back();
      if (is_parent(reach)) send(round, rank_at(place_ + reach), chunk(load, place_ + reach, reach));
      if (is_child(reach)) {
        receive(round, rank_at(place_ - reach), chunk(load, place_, reach), Arrival::replace);
      }
    }
  }

  Schedule take() { return std::move(schedule_); }

 private:
  // In the round of `reach`, children are odd multiples of it and their parents the even ones just before.
  bool is_child(int reach) const { return place_ % (2 * reach) == reach; }
  bool is_parent(int reach) const { return place_ % (2 * reach) == 0 && place_ + reach < task_.world; }
  int rank_at(int place) const { return wrap(place + task_.root, task_.world); }

  Chunk chunk(Load load, int child, int reach) const {
    if (load == Load::everything) return {0, task_.count};
    return chunk_range(task_.count, task_.world, child, std::min(child + reach, task_.world));
  }

  Task task_;
  int place_;  // rank, counted from the root
  Schedule schedule_;
};

Schedule tree_schedule(const Task& t) {
  // Parts belong to ranks, not to places: where no root is asked for it is rank 0, and the two are the same.
  const bool rooted = t.operation == Operation::broadcast || t.operation == Operation::reduce;
  Tree tree({t.operation, t.rank, t.world, t.count, rooted ? t.root : 0});
  switch (t.operation) {
    case Operation::all_reduce:
    case Operation::barrier:
      tree.up(Load::everything, Arrival::combine);
      tree.down(Load::everything);
      break;
    case Operation::reduce_scatter:
      tree.up(Load::everything, Arrival::combine);
      tree.down(Load::chunks_of_subtree);
      break;
    case Operation::all_gather:
      tree.up(Load::chunks_of_subtree, Arrival::replace);
      tree.down(Load::everything);
      break;
    case Operation::broadcast:
      tree.down(Load::everything);
      break;
    case Operation::reduce:
      tree.up(Load::everything, Arrival::combine);
      break;
  }
  return tree.take();
}

}  // namespace

AlgorithmInfo tree() {
  return {.name = "tree", .summary = "up to one rank and down again", .schedule = tree_schedule};
}

}  // namespace tutti::collectives
