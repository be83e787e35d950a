#include "base/shard_tree.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace tutti {

ShardTree::ShardTree(int shards) : shards_(shards) {
  TUTTI_CHECK(shards >= 1, "{} shards", shards);
  leaves_ = static_cast<int>(std::bit_ceil(static_cast<unsigned>(shards)));
}

ShardRun ShardTree::run_of(int index, int workers) const {
  TUTTI_CHECK(0 <= index && index < workers && workers <= shards_, "worker {} of {}, {} shards", index,
              workers, shards_);
  const int each = shards_ / workers;
  const int longer = shards_ % workers;
  const int first = index * each + std::min(index, longer);
  return {first, first + each + (index < longer ? 1 : 0)};
}

// With nothing on its right a left child is its parent, too.
ShardNode ShardTree::grown(ShardNode node) const {
  while (node.size < leaves_ && node.first % (2 * node.size) == 0 && node.first + node.size >= shards_)
    node.size *= 2;
  return node;
}

bool ShardTree::are_brothers(ShardNode left, ShardNode right) const {
  return left.size == right.size && left.first % (2 * left.size) == 0 &&
         left.first + left.size == right.first;
}

std::vector<ShardTree::Held> ShardTree::held_of(ShardRun run) const {
  std::vector<Held> held;
  for (int s = run.first; s < run.last; ++s) held.push_back({{s, 1}});
  join(held);
  for (std::size_t i = 0; i < held.size(); ++i)
    held[i].place = i + 1 < held.size() ? static_cast<int>(i) + 1 : 0;
  return held;
}

int ShardTree::places_of(int workers) const {
  std::size_t most = 1;
  for (int w = 0; w < workers; ++w) most = std::max(most, held_of(run_of(w, workers)).size());
  return static_cast<int>(most);
}

std::vector<ShardTree::Addition> ShardTree::join(std::vector<Held>& nodes) const {
  std::ranges::sort(nodes, {}, [](const Held& h) { return h.node.first; });
  std::vector<Addition> additions;
  std::vector<Held> joined;  // no two brothers among them
  for (Held next : nodes) {
    next.node = grown(next.node);
    while (!joined.empty() && are_brothers(joined.back().node, next.node)) {
      const auto [into, from] = std::minmax(joined.back().place, next.place);
      additions.push_back({into, from});
      next = {parent_of(joined.back().node), into};
      joined.pop_back();
    }
    joined.push_back(next);
  }
  nodes = std::move(joined);
  return additions;
}

}  // namespace tutti
