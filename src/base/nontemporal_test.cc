#include "base/nontemporal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tutti {
namespace {

// At every offset from a line and of every length around some lines: all of it, and nothing beside it.
TEST(Nontemporal, WritesExactlyWhatItIsGiven) {
  constexpr std::size_t kRoom = 128;
  std::vector<float> from(kRoom);
  std::iota(from.begin(), from.end(), 1.0F);
  for (std::size_t first = 0; first < 17; ++first) {
    for (std::size_t count = 0; count <= 70; ++count) {
      const auto inside = [&](std::size_t i) { return i >= first && i < first + count; };
      std::vector<float> to(kRoom, -1);
      copy_nontemporal(std::span(to).subspan(first, count), std::span(from).subspan(first, count));
      for (std::size_t i = 0; i < kRoom; ++i)
        ASSERT_EQ(to[i], inside(i) ? from[i] : -1) << first << " " << count;
      clear_nontemporal(std::span(to).subspan(first, count));
      for (std::size_t i = 0; i < kRoom; ++i) ASSERT_EQ(to[i], inside(i) ? 0 : -1) << first << " " << count;
    }
  }
}

TEST(Nontemporal, CopiesBytesThatBeginAnywhere) {
  constexpr std::size_t kRoom = 400;
  std::vector<std::byte> from(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) from[i] = static_cast<std::byte>(i % 251);
  for (std::size_t first = 0; first < 66; ++first) {
    for (const std::size_t count : {0, 1, 63, 64, 65, 127, 128, 200, 300}) {
      std::vector<std::byte> to(kRoom, std::byte{255});
      // Reading begins at another offset from a line than writing.
      copy_nontemporal(std::span(to).subspan(first, count), std::span(from).subspan(3, count));
      for (std::size_t i = 0; i < kRoom; ++i) {
        const bool inside = i >= first && i < first + count;
        ASSERT_EQ(to[i], inside ? from[i - first + 3] : std::byte{255}) << first << " " << count;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
