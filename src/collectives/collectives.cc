#include "collectives/collectives.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"

namespace tutti::collectives {
namespace {

// Elements of a node that are gathered at a time.
constexpr std::size_t kGathered = 64 << 10;

}  // namespace

// For engines that add up in an order of their own: everything is brought to everyone, and added up there.
void Collectives::average_shards(Operation operation, const ShardSums& sums, Rank root,
                                 std::string_view label) {
  const auto& [tree, places] = sums;
  const auto own = static_cast<std::size_t>(tree.places_of(world()));
  TUTTI_CHECK(places.size() >= own, "{} places, not {}", places.size(), own);
  const auto [data, count, type, device, stream] = places[0];
  const std::size_t size = size_of(type);
  const auto me = static_cast<std::size_t>(to_int(rank()));
  std::vector<std::byte> room;
  for (std::size_t first = 0; first < count; first += kGathered) {
    const std::size_t n = std::min(kGathered, count - first);
    room.resize(static_cast<std::size_t>(world()) * own * n * size);
    const auto place = [&](std::size_t index) { return room.data() + index * n * size; };
    for (std::size_t p = 0; p < own; ++p) {
      std::ranges::copy(bytes_of(places[p], {first, n}), place(me * own + p));
    }
    all_gather({room.data(), static_cast<std::size_t>(world()) * own * n, type}, label);
    std::vector<ShardTree::Held> held;
    for (int r = 0; r < world(); ++r) {
      for (const auto& [node, at] : tree.held_of(tree.run_of(r, world()))) {
        held.push_back({node, r * static_cast<int>(own) + at});
      }
    }
    for (const auto& [into, from] : tree.join(held)) {
      combine(type, ReduceOp::sum, place(static_cast<std::size_t>(into)),
              place(static_cast<std::size_t>(from)), n);
    }
    if (operation == Operation::reduce && rank() != root) continue;
    divide(type, place(0), n, tree.shards());
    std::memcpy(bytes_of(places[0], {first, n}).data(), place(0), n * size);
  }
}

Method Collectives::method_of_shards(Operation operation, std::uint64_t bytes) const {
  return {"gather",
          fmt::format("{} of nodes from everyone, and each adds up: this engine's own {} has another order",
                      human_bytes(bytes), name_of(operation))};
}

std::vector<std::string> gather_text(Collectives& all, const std::string& mine, std::string_view label) {
  const auto world = static_cast<std::size_t>(all.world());
  const auto me = static_cast<std::size_t>(to_int(all.rank()));
  std::vector<std::int64_t> lengths(world);
  lengths[me] = static_cast<std::int64_t>(mine.size());
  all.all_gather({lengths.data(), world, DType::i64}, label);
  // Equal chunks, so each gets room for the longest; words of four bytes, so that every chunk starts on one.
  const auto longest = static_cast<std::size_t>(*std::ranges::max_element(lengths));
  const std::size_t words = (longest + 3) / 4;
  std::vector<std::int32_t> room(words * world);
  std::memcpy(room.data() + words * me, mine.data(), mine.size());
  all.all_gather({room.data(), room.size(), DType::i32}, label);
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < world; ++r) {
    texts.emplace_back(reinterpret_cast<const char*>(room.data() + words * r),
                       static_cast<std::size_t>(lengths[r]));
  }
  return texts;
}

}  // namespace tutti::collectives
