#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tutti {
namespace {

TEST(Bytes, ReadsUnitsAsPowersOf1024) {
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("17"), 17U);
  EXPECT_EQ(parse_bytes("1K"), 1024U);
  EXPECT_EQ(parse_bytes("64M"), 64U << 20);
  EXPECT_EQ(parse_bytes("2GiB"), 2ULL << 30);
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "-1", "1X", "1.5M", "1 K", "99999999999999999999", "99999999999G"}) {
    EXPECT_THROW(parse_bytes(text), ConfigError) << text;
  }
}

TEST(Bytes, ReadsLists) {
  EXPECT_EQ(parse_bytes_list("1K,2,3M"), (std::vector<std::uint64_t>{1024, 2, 3U << 20}));
  EXPECT_THROW(parse_bytes_list("1K,,2"), ConfigError);
  EXPECT_THROW(parse_bytes_list(""), ConfigError);
}

TEST(Bytes, PrintsForPeople) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(26ULL << 20), "26.0 MiB");
}

}  // namespace
}  // namespace tutti
