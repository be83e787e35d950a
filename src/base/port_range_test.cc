#include "base/port_range.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tutti {
namespace {

TEST(PortRange, IsReadAndWritten) {
  EXPECT_TRUE(parse_port_range("").any());
  EXPECT_EQ(parse_port_range("20000-20099"), (PortRange{20000, 20099}));
  EXPECT_EQ(parse_port_range("7"), (PortRange{7, 7}));
  for (const char* text : {"", "1-65535", "80-80"}) EXPECT_EQ(text_of(parse_port_range(text)), text);
}

TEST(PortRange, OtherTextsAreRefused) {
  for (const char* text : {"-", "1-", "-1", "0", "0-5", "9-1", "1-65536", "a-b", "1-2-3", " 1", "1 - 2"}) {
    EXPECT_THROW(parse_port_range(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace tutti
