#include "collectives/in_order.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"

namespace tutti::collectives {
namespace {

using Held = ShardTree::Held;

// Elements that no schedule tells apart: what happens to one happens to all of them.
class Atoms {
 public:
  Atoms(std::span<const Schedule> all, std::size_t count) {
    std::set<std::size_t> edges = {0, count};
    for (const Schedule& schedule : all) {
      for (const auto& round : schedule.rounds) {
        for (const Receive& r : round.receives) edges.insert({r.chunk.first, r.chunk.first + r.chunk.count});
      }
    }
    edges_.assign(edges.begin(), edges.end());
  }
  std::size_t size() const { return edges_.size() - 1; }
  // Those of a chunk, [first, last).
  std::pair<std::size_t, std::size_t> of(const Chunk& chunk) const {
    return {index(chunk.first), index(chunk.first + chunk.count)};
  }

 private:
  std::size_t index(std::size_t edge) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(edges_, edge) - edges_.begin());
  }
  std::vector<std::size_t> edges_;
};

// Plays the schedules of all ranks against each other, on nodes in the place of numbers.
class Rehearsal {
 public:
  Rehearsal(std::span<const Schedule> all, std::size_t count, const ShardTree& tree)
      : schedules_(all), tree_(tree), atoms_(all, count) {
    const int world = static_cast<int>(all.size());
    for (int rank = 0; rank < world; ++rank) {
      held_.emplace_back(atoms_.size(), tree.held_of(tree.run_of(rank, world)));
    }
  }

  OrderedSchedule of(int rank) {
    OrderedSchedule result;
    result.places = static_cast<int>(held_.at(index(rank)).front().size());
    for (std::size_t k = 0; k < schedules_[0].rounds.size(); ++k)
      result.rounds.push_back(play(k, rank, result));
    return result;
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  // What a rank holds of a chunk: the same in all of its elements, or the algorithm would not know what it
  // sends.
  const std::vector<Held>& of_chunk(const std::vector<std::vector<Held>>& of_rank, const Chunk& chunk) const {
    const auto [first, last] = atoms_.of(chunk);
    for (std::size_t a = first; a < last; ++a) {
      TUTTI_CHECK(of_rank[a] == of_rank[first], "a chunk of {} elements holds different sums", chunk.count);
    }
    return of_rank[first];
  }

  OrderedSchedule::Round play(std::size_t k, int of_rank, OrderedSchedule& result) {
    const auto before = held_;
    OrderedSchedule::Round mine;
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      const bool watched = rank == index(of_rank);
      const Round& round = schedules_[rank].rounds[k];
      for (const Send& s : round.sends) {
        if (watched) mine.sends.push_back({s.peer, s.chunk, places_of(of_chunk(before[rank], s.chunk))});
      }
      for (const Receive& r : round.receives) {
        const auto& theirs = of_chunk(before[index(to_int(r.peer))], r.chunk);
        auto now = r.combine ? of_chunk(held_[rank], r.chunk) : std::vector<Held>{};
        const auto arrived = find_places(theirs, now);
        now.insert(now.end(), arrived.begin(), arrived.end());
        if (watched) {
          mine.receives.push_back({r.peer, r.chunk, places_of(arrived)});
          for (const Held& h : now) result.places = std::max(result.places, h.place + 1);
        }
        set(rank, r.chunk, now);
      }
      // Only when all has come: what else arrives in this round may lie in places that joining would free.
      for (const Receive& r : round.receives) join(rank, r.chunk, watched ? &mine : nullptr);
    }
    return mine;
  }

  static std::vector<int> places_of(const std::vector<Held>& nodes) {
    std::vector<int> places;
    for (const Held& h : nodes) places.push_back(h.place);
    return places;
  }

  // The nodes, in places that the others leave free.
  static std::vector<Held> find_places(const std::vector<Held>& nodes, const std::vector<Held>& others) {
    std::vector<Held> placed;
    int place = 0;
    for (const Held& h : nodes) {
      while (std::ranges::count(others, place, &Held::place) > 0) ++place;
      placed.push_back({h.node, place++});
    }
    return placed;
  }

  void set(std::size_t rank, const Chunk& chunk, const std::vector<Held>& nodes) {
    const auto [first, last] = atoms_.of(chunk);
    for (std::size_t a = first; a < last; ++a) held_[rank][a] = nodes;
  }

  void join(std::size_t rank, const Chunk& chunk, OrderedSchedule::Round* note) {
    auto nodes = of_chunk(held_[rank], chunk);
    for (const auto& addition : tree_.join(nodes)) {
      if (note != nullptr) note->sums.push_back({chunk, addition});
    }
    set(rank, chunk, nodes);
  }

  const std::span<const Schedule> schedules_;
  const ShardTree& tree_;
  const Atoms atoms_;
  std::vector<std::vector<std::vector<Held>>> held_;  // by rank and atom
};

}  // namespace

OrderedSchedule make_ordered_schedule(Operation operation, Algorithm algorithm, Rank rank, int world,
                                      std::size_t count, const ShardTree& tree, Rank root) {
  TUTTI_CHECK(operation == Operation::all_reduce || operation == Operation::reduce, "{} adds nothing up",
              name_of(operation));
  std::vector<Schedule> all;
  for (int r = 0; r < world; ++r)
    all.push_back(make_schedule(operation, algorithm, Rank{r}, world, count, root));
  return put_in_order(all, rank, count, tree);
}

OrderedSchedule put_in_order(std::span<const Schedule> all, Rank rank, std::size_t count,
                             const ShardTree& tree) {
  if (count == 0) return {};
  return Rehearsal(all, count, tree).of(to_int(rank));
}

std::size_t elements_sent(const OrderedSchedule& schedule) {
  std::size_t sent = 0;
  for (const auto& round : schedule.rounds) {
    for (const auto& message : round.sends) sent += message.chunk.count * message.places.size();
  }
  return sent;
}

void run_in_order(net::Transport& transport, const OrderedSchedule& schedule, std::span<const Buffer> places,
                  const net::Activity& doing) {
  const auto at = [&](int place) -> const Buffer& { return places[static_cast<std::size_t>(place)]; };
  for (const auto& round : schedule.rounds) {
    // There is one message from a rank to another at a time, so nodes go one after another.
    std::size_t most = 0;
    for (const auto& m : round.sends) most = std::max(most, m.places.size());
    for (const auto& m : round.receives) most = std::max(most, m.places.size());
    for (std::size_t i = 0; i < most; ++i) {
      std::vector<net::Outgoing> out;
      std::vector<net::Incoming> in;
      for (const auto& m : round.sends) {
        if (i < m.places.size()) out.push_back({m.peer, bytes_of(at(m.places[i]), m.chunk)});
      }
      for (const auto& m : round.receives) {
        if (i >= m.places.size()) continue;
        const auto into = bytes_of(at(m.places[i]), m.chunk);
        in.push_back({m.peer, into, into.size()});
      }
      transport.transfer(out, in, doing);
    }
    for (const auto& [chunk, sum] : round.sums) {
      combine(at(sum.into).type, ReduceOp::sum, bytes_of(at(sum.into), chunk).data(),
              bytes_of(at(sum.from), chunk).data(), chunk.count);
    }
  }
}

std::uint64_t add_in_place_in_order(const WorkInPlace& work, const ShardTree& tree,
                                    std::span<const std::size_t> places, std::uint64_t clock) {
  // Small enough that a block of every node is in the nearest cache until it has been added up.
  constexpr std::size_t kBlock = 1024;
  const Chunk mine = equal_chunk(work.buffer.count, work.world, to_int(work.self));
  const std::size_t size = size_of(work.buffer.type);
  std::vector<Held> held;
  std::vector<std::byte*> nodes;   // by place
  std::vector<std::byte*> firsts;  // by rank
  for (int r = 0; r < work.world; ++r) {
    std::byte* const arena = work.memory.arena(Rank{r}).data() + mine.first * size;
    firsts.push_back(arena + places[0]);
    for (const auto& [node, place] : tree.held_of(tree.run_of(r, work.world))) {
      held.push_back({node, static_cast<int>(nodes.size())});
      nodes.push_back(arena + places[static_cast<std::size_t>(place)]);
    }
  }
  const auto additions = tree.join(held);
  const std::byte* const sum = nodes[static_cast<std::size_t>(held.front().place)];
  clock = begin_together(work, clock);
  for (std::size_t first = 0; first < mine.count; first += kBlock) {
    const std::size_t n = std::min(kBlock, mine.count - first);
    const std::size_t at = first * size;
    for (const auto& [into, from] : additions) {
      combine(work.buffer.type, ReduceOp::sum, nodes[static_cast<std::size_t>(into)] + at,
              nodes[static_cast<std::size_t>(from)] + at, n);
    }
    for (std::byte* const to : firsts) {
      if (to != sum) std::memcpy(to + at, sum + at, n * size);
    }
  }
  work.memory.advance(++clock);
  for (int r = 0; r < work.world; ++r) {
    if (Rank{r} != work.self) work.memory.await(Rank{r}, clock, work.doing);
  }
  return clock;
}

}  // namespace tutti::collectives
