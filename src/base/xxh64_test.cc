#include "base/xxh64.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace tutti {
namespace {

std::uint64_t of(std::string_view text, std::uint64_t seed = 0) {
  return xxh64(std::as_bytes(std::span(text)), seed);
}

// Published values: below and above a block of 32 bytes.
TEST(Xxh64, IsTheOneThatOthersCompute) {
  EXPECT_EQ(of(""), 0xEF46DB3751D8E999U);
  EXPECT_EQ(of("a"), 0xD24EC4F1A98C6E5BU);
  EXPECT_EQ(of("abc"), 0x44BC2CF5AD770999U);
  EXPECT_EQ(of("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1U);
}

TEST(Xxh64, EveryBitCounts) {
  for (const std::size_t length : {1U, 7U, 13U, 32U, 71U}) {
    std::vector<std::byte> bytes(length);
    const auto whole = xxh64(bytes);
    for (std::size_t bit = 0; bit < length * 8; ++bit) {
      bytes[bit / 8] ^= std::byte(1U << (bit % 8));
      EXPECT_NE(xxh64(bytes), whole) << length << " bytes, bit " << bit;
      bytes[bit / 8] ^= std::byte(1U << (bit % 8));
    }
    EXPECT_EQ(xxh64(bytes), whole);
    EXPECT_NE(xxh64(bytes, 1), whole);
  }
}

TEST(Xxh64, HexHasSixteenDigits) {
  EXPECT_EQ(hex64(0x1FU), "000000000000001f");
}

}  // namespace
}  // namespace tutti
