// Servers and workers that die, stand still, or are busy for long.
#include <gtest/gtest.h>

#include <mutex>

#include "base/error.h"
#include "net/group.h"
#include "ps/server_fixture.h"

namespace tutti::ps {
namespace {

using fixture::Buckets;
using fixture::kContents;
using fixture::kPatience;

class ServersThatLose : public ::testing::TestWithParam<net::Medium> {};

INSTANTIATE_TEST_SUITE_P(All, ServersThatLose, ::testing::Values(net::Medium::memory, net::Medium::sockets),
                         [](const auto& p) { return p.param == net::Medium::memory ? "Memory" : "Sockets"; });

// Long before the time-out of a minute: nobody waits for one that is known to be dead.
TEST_P(ServersThatLose, WorkerThatDiesIsNamedAtOnceOnServerAndWorkers) {
  constexpr std::chrono::seconds kAtOnce(10);
  const ServerOptions o{.workers = 2, .first_server = 2, .servers = 1, .policy = {.workers = 2}};
  net::run_as_threads(GetParam(), 3, kPatience, [&](net::Transport& t) {
    if (to_int(t.rank()) == 2) {
      try {
        serve(t, o);
        ADD_FAILURE();
      } catch (const PeerLost& e) {
        EXPECT_EQ(e.fault.peer, Rank{1});
        EXPECT_LT(e.fault.waited, kAtOnce);
      }
      return;
    }
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    if (to_int(t.rank()) == 1) return;  // dies
    pieces.push(0, 0.1);
    const auto begin = Clock::now();
    EXPECT_THROW(pieces.wait(0), RunError);
    EXPECT_LT(Clock::now() - begin, kAtOnce);
  });
}

TEST_P(ServersThatLose, WorkerThatIsBusyForLongerThanTheTimeOutIsWaitedFor) {
  const ServerOptions o{.workers = 2,
                        .first_server = 2,
                        .servers = 1,
                        .policy = {.workers = 2},
                        .timeout = std::chrono::milliseconds(500)};
  net::run_as_threads(GetParam(), 3, o.timeout, [&](net::Transport& t) {
    if (to_int(t.rank()) == 2) return (void)serve(t, o);
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    if (to_int(t.rank()) == 1) {  // evaluates, say
      for (const auto begin = Clock::now(); Clock::now() - begin < 3 * o.timeout;) {
        t.board().advance(t.rank());
        std::this_thread::yield();
      }
    }
    pieces.push(0, 0.1);
    pieces.wait(0);
    connection.leave();
    connection.say_goodbye();
  });
}

TEST_P(ServersThatLose, WorkerThatStandsStillIsNamedByTheServer) {
  const ServerOptions o{.workers = 2,
                        .first_server = 2,
                        .servers = 1,
                        .policy = {.workers = 2},
                        .timeout = std::chrono::milliseconds(300)};
  std::mutex hold;
  net::run_as_threads(GetParam(), 3, kPatience, [&](net::Transport& t) {
    if (to_int(t.rank()) == 2) {
      const std::scoped_lock lock(hold);
      try {
        serve(t, o);
        ADD_FAILURE();
      } catch (const Timeout& e) {
        EXPECT_LT(e.fault.waited, 5 * o.timeout);
        EXPECT_EQ(e.fault.peer, Rank{1});
        EXPECT_EQ(e.fault.operation, "push of piece 0, version 0");
      }
      return;
    }
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    if (to_int(t.rank()) == 1) {
      const std::scoped_lock still(hold);  // until the server has given up
      return;
    }
    pieces.push(0, 0.1);
    EXPECT_THROW(pieces.wait(0), RunError);
  });
}

// Where servers count the workers otherwise than the job does, as with one push a host.
TEST(Sockets, WorkerThatStandsStillIsNamedByItsRankInTheJob) {
  const std::vector<Rank> seen = {Rank{0}, Rank{2}, Rank{1}, Rank{3}, Rank{4}};
  const ServerOptions o{.workers = 2,
                        .first_server = 4,
                        .servers = 1,
                        .policy = {.workers = 2},
                        .timeout = std::chrono::milliseconds(300)};
  std::mutex hold;
  net::run_as_threads(net::Medium::sockets, 5, kPatience, [&](net::Transport& job) {
    if (job.rank() == Rank{1} || job.rank() == Rank{3}) return;  // others push for them
    net::Group group(job, job.world());
    net::Survivors t(group, seen);
    if (job.rank() == Rank{4}) {
      const std::scoped_lock lock(hold);
      try {
        serve(t, o);
        ADD_FAILURE();
      } catch (const Timeout& e) {
        EXPECT_EQ(e.fault.rank, Rank{4});
        EXPECT_EQ(e.fault.peer, Rank{2});
      }
      return;
    }
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    if (job.rank() == Rank{2}) {
      const std::scoped_lock still(hold);  // until the server has given up
      return;
    }
    pieces.push(0, 0.1);
    EXPECT_THROW(pieces.wait(0), RunError);
  });
}

// A server of a world that counts otherwise does not answer.
TEST(Sockets, ServerThatStandsStillIsNamedByItsRankInTheJob) {
  const std::vector<Rank> seen = {Rank{1}, Rank{0}};
  const ServerOptions o{.workers = 1,
                        .first_server = 1,
                        .servers = 1,
                        .policy = {.workers = 1},
                        .timeout = std::chrono::milliseconds(300)};
  std::mutex hold;
  net::run_as_threads(net::Medium::sockets, 2, kPatience, [&](net::Transport& job) {
    net::Survivors t(job, seen);
    if (job.rank() == Rank{0}) {
      const Header hello = receive_header(t, Rank{0}, {});
      (void)receive_text(t, Rank{0}, hello, {});
      send(t, Rank{0}, {.verb = Verb::welcome}, {}, {});
      const std::scoped_lock still(hold);  // until the worker has given up
      return;
    }
    const std::scoped_lock lock(hold);
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    pieces.push(0, 0.1);
    try {
      pieces.wait(0);
      ADD_FAILURE();
    } catch (const Timeout& e) {
      EXPECT_EQ(e.fault.rank, Rank{1});
      EXPECT_EQ(e.fault.peer, Rank{0});
    }
  });
}

}  // namespace
}  // namespace tutti::ps
