#include "rendezvous/rendezvous.h"

#include <gtest/gtest.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <thread>

#include "base/error.h"
#include "rendezvous/rehearsal.h"

namespace tutti::rendezvous {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

struct Host {
  explicit Host(int world) : rendezvous(io, "127.0.0.1", world, secret), runner([this] { io.run(); }) {}
  ~Host() {
    io.stop();
    runner.join();
  }
  net::Secret secret = net::make_secret();
  boost::asio::io_context io;
  Rendezvous rendezvous;
  std::thread runner;
};

TEST(Rendezvous, EveryRankLearnsWhereEveryOtherListens) {
  constexpr int kWorld = 8;
  Host host(kWorld);
  const auto where = host.rendezvous.endpoint();
  std::vector<std::thread> ranks;
  for (int r = 0; r < kWorld; ++r) {
    ranks.emplace_back([&, r] {
      const net::Endpoint mine{"10.0.0." + std::to_string(r), static_cast<std::uint16_t>(1000 + r)};
      const auto all = join(where, host.secret, Rank{r}, kWorld, mine, Deadline::in(kPatience));
      ASSERT_EQ(all.size(), static_cast<std::size_t>(kWorld));
      EXPECT_EQ(all[5].host, "10.0.0.5");
      EXPECT_EQ(all[7].port, 1007);
    });
  }
  for (auto& t : ranks) t.join();
}

// Far more connections than may be pending at once.
TEST(Rendezvous, AThousandRanksMeetHoweverManyIdleConnectionsAreThere) {
  constexpr int kRanks = 1000;
  for (const int idle_connections : {0, 5000}) {
    const auto meeting = rehearse(kRanks, idle_connections, kPatience);
    for (int r = 0; r < kRanks; ++r) {
      const auto& told = meeting.told[static_cast<std::size_t>(r)];
      ASSERT_EQ(told.size(), static_cast<std::size_t>(kRanks)) << "rank " << r;
      for (int other = 0; other < kRanks; ++other) {
        ASSERT_EQ(told[static_cast<std::size_t>(other)], made_up_endpoint(other)) << "rank " << r;
      }
    }
  }
}

TEST(Rendezvous, RankOfAnotherJobIsToldSoAtOnce) {
  boost::asio::io_context io;
  const net::Credentials ours(net::make_secret(), {.job = net::make_secret()});
  Rendezvous rendezvous(io, "127.0.0.1", 1, ours);
  std::jthread runner([&] { io.run(); });
  net::Credentials other = ours;
  other.terms.job = net::make_secret();
  try {
    join(rendezvous.endpoint(), other, Rank{0}, 1, {"127.0.0.1", 1}, Deadline::in(kPatience));
    ADD_FAILURE() << "it was let in";
  } catch (const ProtocolError& e) {
    EXPECT_NE(std::string(e.what()).find(fmt::format("the job is {} there and {} here",
                                                     to_hex(ours.terms.job), to_hex(other.terms.job))),
              std::string::npos)
        << e.what();
  }
  EXPECT_EQ(join(rendezvous.endpoint(), ours, Rank{0}, 1, {"127.0.0.1", 7}, Deadline::in(kPatience))[0].port,
            7);
  io.stop();
}

// A card that is not as the rank has sent it is not passed on.
TEST(Rendezvous, CardThatWasAlteredOnItsWayCountsForNothing) {
  Host host(1);
  const auto where = host.rendezvous.endpoint();
  {
    const auto connection = net::dial(where, host.secret, Rank{0}, net::kRendezvous, Deadline::in(kPatience));
    const std::vector<std::byte> card(64, std::byte{'1'});  // its tag is none
    net::write_exactly(connection.fd.get(), card, Rank{0}, net::kRendezvous, "test", Deadline::in(kPatience));
    std::byte next{};
    EXPECT_THROW(net::read_exactly(connection.fd.get(), {&next, 1}, Rank{0}, net::kRendezvous, "test",
                                   Deadline::in(kPatience)),
                 PeerLost);
  }
  EXPECT_EQ(join(where, host.secret, Rank{0}, 1, {"127.0.0.1", 77}, Deadline::in(kPatience))[0].port, 77);
}

TEST(Rendezvous, StrangersAndWrongSecretsDoNotDisturb) {
  Host host(1);
  const auto where = host.rendezvous.endpoint();
  EXPECT_THROW(join(where, net::make_secret(), Rank{0}, 1, {"127.0.0.1", 1}, Deadline::in(kPatience)),
               AuthError);
  boost::asio::io_context io;
  net::Tcp::socket garbage(io);
  garbage.connect({boost::asio::ip::make_address(where.host), where.port});
  boost::asio::write(garbage, boost::asio::buffer(std::string(1000, '\xff')));
  EXPECT_EQ(join(where, host.secret, Rank{0}, 1, {"127.0.0.1", 77}, Deadline::in(kPatience))[0].port, 77);
}

// The launcher of another version: reads a hello and answers as ours would if the numbers were swapped.
TEST(Rendezvous, OfAnotherVersionIsSaidAtOnceWithBothVersions) {
  boost::asio::io_context io;
  net::Tcp::acceptor listener(io, {boost::asio::ip::address_v4::loopback(), 0});
  const std::jthread other([&] {
    net::Tcp::socket caller = listener.accept();
    net::Hello hello;
    boost::asio::read(caller, boost::asio::buffer(&hello, sizeof hello));
    net::Refusal refusal;
    refusal.version = 7;
    boost::asio::write(caller, boost::asio::buffer(&refusal, sizeof refusal));
  });
  const net::Endpoint where{"127.0.0.1", listener.local_endpoint().port()};
  try {
    join(where, net::make_secret(), Rank{0}, 1, {"127.0.0.1", 1}, Deadline::in(kPatience));
    ADD_FAILURE() << "it was let in";
  } catch (const ProtocolError& e) {
    EXPECT_EQ(e.what(), fmt::format("rank 0: 127.0.0.1:{} speaks version 7 of the protocol, this program {}",
                                    where.port, net::kProtocolVersion));
  }
}

TEST(Rendezvous, SecondCallerForOneRankIsTurnedAway) {
  Host host(2);
  const auto where = host.rendezvous.endpoint();
  const auto first = net::dial(where, host.secret, Rank{0}, net::kRendezvous, Deadline::in(kPatience));
  EXPECT_THROW(net::dial(where, host.secret, Rank{0}, net::kRendezvous, Deadline::in(kPatience)), AuthError);
  for (const int nobody : {-1, 2}) {
    EXPECT_THROW(net::dial(where, host.secret, Rank{nobody}, net::kRendezvous, Deadline::in(kPatience)),
                 AuthError);
  }
}

TEST(Rendezvous, RankThatNeverComesIsATimeout) {
  Host host(2);
  EXPECT_THROW(join(host.rendezvous.endpoint(), host.secret, Rank{0}, 2, {"127.0.0.1", 1},
                    Deadline::in(std::chrono::milliseconds(200))),
               Timeout);
}

}  // namespace
}  // namespace tutti::rendezvous
