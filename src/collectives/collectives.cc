#include "collectives/collectives.h"

#include <algorithm>
#include <cstring>

namespace tutti::collectives {

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
