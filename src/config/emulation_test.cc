#include "config/emulation.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/train_config.h"

namespace tutti::config {
namespace {

TEST(Emulation, HostsAndLinkAreRead) {
  const auto e = parse_emulation("hosts=6,link=1gbit");
  ASSERT_TRUE(e);
  EXPECT_EQ(e->hosts, 6);
  EXPECT_EQ(e->link, "1gbit");
  EXPECT_EQ(e->bits_per_second, 1'000'000'000U);
  EXPECT_EQ(parse_emulation("link=2.5gbit,hosts=2")->bits_per_second, 2'500'000'000U);
  EXPECT_EQ(parse_emulation("link=100mbit")->hosts, 0);
  EXPECT_FALSE(parse_emulation(""));
}

TEST(Emulation, AnythingElseIsRefusedInOneLineThatNamesIt) {
  for (const char* text : {"hosts=0,link=1gbit",
                           "hosts=-1,link=1gbit",
                           "hosts=251,link=1gbit",
                           "hosts=x,link=1gbit",
                           "hosts=2x,link=1gbit",
                           "hosts=,link=1gbit",
                           "hosts,link=1gbit",
                           "link=fast",
                           "link=1",
                           "link=1Gbit",
                           "link=-1gbit",
                           "link=0gbit",
                           "link=nangbit",
                           "link=infgbit",
                           "link=1kbit",
                           "link=101gbit",
                           "link=",
                           "hosts=3",
                           "racks=2,link=1gbit",
                           "1gbit",
                           ",",
                           "link=1gbit,,hosts=2"}) {
    try {
      parse_emulation(text);
      ADD_FAILURE() << text;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("--emulate"), std::string::npos) << e.what();
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    }
  }
}

TEST(Emulation, HostsShareNoMemory) {
  TrainConfig c;
  c.emulate = "link=1gbit";
  validate(c);
  c.transport = "shm";
  EXPECT_THROW(validate(c), ConfigError);
  c.transport = "tcp";
  c.local_aggregation = true;
  validate(c);  // each host by itself
  c.no_local_aggregation = true;
  EXPECT_THROW(validate(c), ConfigError);
}

}  // namespace
}  // namespace tutti::config
