#include "net/interface.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "net/acceptor.h"

namespace tutti::net {
namespace {

TEST(Interface, IsFoundByNameAndByAddress) {
  EXPECT_EQ(address_of_interface("lo"), "127.0.0.1");
  EXPECT_EQ(address_of_interface("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_of_interface("127.0.0.0/8"), "127.0.0.1");
  EXPECT_TRUE(is_own_address("127.0.0.1"));
  EXPECT_FALSE(is_own_address("240.0.0.1")) << "which nobody is given";
  EXPECT_EQ(resolve("localhost"), "127.0.0.1");
  EXPECT_EQ(resolve("127.0.0.1"), "127.0.0.1");
}

// Least of all an address that stands for all of them.
TEST(Interface, OneThatIsNotThereIsRefusedWithThoseThatAre) {
  for (const char* name : {"nowhere0", "0.0.0.0", "::", "240.0.0.1", "", "240.0.0.0/24", "0.0.0.0/0",
                           "127.0.0.0/", "127.0.0.0/33"}) {
    try {
      address_of_interface(name);
      ADD_FAILURE() << name;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("there are lo (127.0.0.1)"), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(resolve("no-such-host.invalid"), RunError);
}

TEST(Interface, ListenersTakeTheFirstFreePortOfARange) {
  boost::asio::io_context io;
  const auto listen = [&](PortRange ports) {
    return std::make_unique<Acceptor>(
        io, "127.0.0.1", ports, make_secret(), Rank{0}, [](Rank) { return true; },
        [](Rank, Tcp::socket, const SessionKeys&) {});
  };
  // Two neighbours that are free now; others may take them at any time, so several are tried.
  for (std::uint16_t first = 21'000; first < 22'000; first += 2) {
    try {
      const PortRange pair{first, static_cast<std::uint16_t>(first + 1)};
      const auto one = listen(pair);
      const auto other = listen(pair);
      EXPECT_EQ(one->endpoint().port(), first);
      EXPECT_EQ(other->endpoint().port(), first + 1);
      EXPECT_THROW(listen(pair), RunError) << "both are taken";
      return;
    } catch (const RunError&) {
    }
  }
  ADD_FAILURE() << "no two neighbouring ports were free";
}

}  // namespace
}  // namespace tutti::net
