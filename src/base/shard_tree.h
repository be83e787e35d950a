// The one order in which the gradients of a step are added up, whoever adds them.
//
// A global batch is cut into V shards. Their gradients are the leaves of a binary tree, and every node above
// is the sum of its two children; so the bits of the root depend on V alone, not on who has formed which
// node.
//
//     V = 8                        0-7
//                         ┌─────────┴─────────┐
//                        0-3                 4-7
//                     ┌───┴───┐           ┌───┴───┐
//                    0-1     2-3         4-5     6-7
//                    ┌┴┐     ┌┴┐         ┌┴┐     ┌┴┐
//                    0 1     2 3         4 5     6 7
//     3 workers      └─ 0 ───┘ └──── 1 ────┘     └2┘      hold 0-1, 2 │ 3, 4-5 │ 6-7
//
// A worker holds a run of shards. What it can add up by itself are the largest nodes within its run. Where V
// is no power of two, the tree is that of the next one, and a node with nothing on its right is its left
// child.
#pragma once

#include <span>
#include <vector>

namespace tutti {

// A node: shards [first, first + size), of which those from V on do not exist. The size is a power of two,
// and divides `first`.
struct ShardNode {
  int first = 0;
  int size = 1;
  bool operator==(const ShardNode&) const = default;
};

// Shards [first, last).
struct ShardRun {
  int first = 0;
  int last = 0;
  int count() const { return last - first; }
  bool operator==(const ShardRun&) const = default;
};

class ShardTree {
 public:
  // At least one shard.
  explicit ShardTree(int shards);

  int shards() const { return shards_; }
  ShardNode root() const { return {0, leaves_}; }

  // Whether a node on the left and one on the right have the same parent, and that parent. A left child with
  // nothing on its right is its own parent: nodes given here are as large as that makes them.
  bool are_brothers(ShardNode left, ShardNode right) const;
  ShardNode parent_of(ShardNode left) const { return grown({left.first, 2 * left.size}); }
  ShardNode grown(ShardNode node) const;

  // A node comes to those that wait, which lie to its left. As long as the last of them is its brother, the
  // two become their parent and `add(i)` is called: the sum that has come is to be added to that of
  // waiting[i]. What comes of it waits, too.
  template <typename Add>
  void take_in(std::vector<ShardNode>& waiting, ShardNode node, const Add& add) const {
    node = grown(node);
    while (!waiting.empty() && are_brothers(waiting.back(), node)) {
      add(waiting.size() - 1);
      node = parent_of(waiting.back());
      waiting.pop_back();
    }
    waiting.push_back(node);
  }

  // What worker `index` of so many computes: runs as equal as can be, the longer ones first.
  ShardRun run_of(int index, int workers) const;

  // Nodes whose sums lie in numbered places.
  struct Held {
    ShardNode node;
    int place = 0;
    bool operator==(const Held&) const = default;
  };
  // The largest nodes that make up the run, in their order, and where a worker has them that adds up its
  // shards one after another: each shard comes in place 0, so the last node lies there, and those before it
  // follow from place 1 on.
  std::vector<Held> held_of(ShardRun run) const;
  // The most places that any of so many workers has.
  int places_of(int workers) const;

  // The sum at `from` is to be added to the one at `into`.
  struct Addition {
    int into = 0;
    int from = 0;
    bool operator==(const Addition&) const = default;
  };
  // Joins brothers until there are none among the nodes, and says which additions that takes, in their order.
  // The sum stays in the lower of the two places: which of two numbers is added to the other changes no bit.
  // Nodes do not overlap; they are sorted on return.
  std::vector<Addition> join(std::vector<Held>& nodes) const;

 private:
  int shards_;
  int leaves_;  // the power of two from shards_ on
};

}  // namespace tutti
