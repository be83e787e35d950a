#include "net/wire.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tutti::net {
namespace {

TEST(Wire, IsNamedAsItIsAskedFor) {
  for (const Wire wire : {Wire::plain, Wire::auth, Wire::encrypt}) {
    EXPECT_EQ(parse_wire(name_of(wire)), wire);
  }
  EXPECT_EQ(parse_wire("auto"), std::nullopt);
  EXPECT_EQ(name_of(Wire{3}), "?");
  EXPECT_THROW(parse_wire("tls"), ConfigError);
}

TEST(Wire, IsAuthenticatedBetweenHostsAndPlainOnlyWithinOne) {
  EXPECT_EQ(resolve_wire(std::nullopt, Reach::one_host), Wire::plain);
  EXPECT_EQ(resolve_wire(std::nullopt, Reach::emulated_hosts), Wire::auth);
  EXPECT_EQ(resolve_wire(std::nullopt, Reach::hosts), Wire::auth);
  for (const Reach reach : {Reach::one_host, Reach::emulated_hosts, Reach::hosts}) {
    for (const Wire asked : {Wire::auth, Wire::encrypt}) EXPECT_EQ(resolve_wire(asked, reach), asked);
  }
  EXPECT_EQ(resolve_wire(Wire::plain, Reach::one_host), Wire::plain);
  EXPECT_EQ(resolve_wire(Wire::plain, Reach::emulated_hosts), Wire::plain);
  EXPECT_THROW(resolve_wire(Wire::plain, Reach::hosts), ConfigError);
}

TEST(Wire, KnowsLoopbackAddresses) {
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1"}) EXPECT_TRUE(is_loopback(address)) << address;
  for (const char* address : {"10.77.1.0", "128.0.0.1", "0.0.0.0", "::", "fe80::1", "localhost", ""}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

}  // namespace
}  // namespace tutti::net
