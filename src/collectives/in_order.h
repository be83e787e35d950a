// Sums in the order of a tree of shards (base/shard_tree.h), by any algorithm: the same bits from each of
// them, at every number of ranks.
//
// A message of a plain schedule carries the sum of what some ranks have brought. Here it carries the nodes of
// the tree that these ranks' shards make up, each as an array of its own, and whoever receives them joins
// brothers. With 4 ranks and 4 shards a ring, which adds up 1, 2, 3, 0 for the chunk that rests at rank 0,
// carries
//
//     1 -> 2: node 1      2 -> 3: nodes 1, 2      3 -> 0: nodes 1, 2-3      at 0: (0+1) + (2-3)
//
// while a tree of ranks carries one node all the way. So the order costs messages where an algorithm's own is
// another, and nothing where it is the same.
#pragma once

#include <span>
#include <vector>

#include "base/shard_tree.h"
#include "collectives/executor.h"

namespace tutti::collectives {

// What one rank does. A rank keeps nodes in numbered places, each a whole buffer; its own are in the first
// ones, in their order, and the result ends in place 0.
struct OrderedSchedule {
  struct Message {
    Rank peer{};
    Chunk chunk;
    std::vector<int> places;  // of this rank, an array each
  };
  struct Sum {
    Chunk chunk;
    ShardTree::Addition places;
  };
  struct Round {
    std::vector<Message> sends;
    std::vector<Message> receives;
    std::vector<Sum> sums;  // when all has been received
  };
  std::vector<Round> rounds;
  int places = 1;  // how many are needed
};

// For an all-reduce, or a reduce to the root, of `count` elements; ranks hold the shards that tree.run_of()
// gives them. At most as many ranks as shards. The algorithm must have a schedule. A pure function.
OrderedSchedule make_ordered_schedule(Operation operation, Algorithm algorithm, Rank rank, int world,
                                      std::size_t count, const ShardTree& tree, Rank root = Rank{0});

// The same of any schedules that add up `count` elements; `all` are those of all ranks.
OrderedSchedule put_in_order(std::span<const Schedule> all, Rank rank, std::size_t count,
                             const ShardTree& tree);

// What the rank puts on the wire.
std::size_t elements_sent(const OrderedSchedule& schedule);

// `places` are as many buffers as the schedule needs, of one type and of the length that it was made for.
// Blocks; throws PeerLost, Timeout.
void run_in_order(net::Transport& transport, const OrderedSchedule& schedule, std::span<const Buffer> places,
                  const net::Activity& doing);

// An all-reduce in memory that all ranks see, in one pass: each rank adds up its part of everybody's nodes
// where they lie, and writes the sum into everybody's first place. `places` says where in its arena a rank
// has each place; the same on every rank. The work's schedule is not looked at. Returns the clock
// (algorithms.h, RunInPlace).
std::uint64_t add_in_place_in_order(const WorkInPlace& work, const ShardTree& tree,
                                    std::span<const std::size_t> places, std::uint64_t clock);

}  // namespace tutti::collectives
