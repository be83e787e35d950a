// Workers that die while the others go on.
#include <gtest/gtest.h>

#include <barrier>

#include "base/error.h"
#include "ps/server.h"
#include "ps/server_fixture.h"

namespace tutti::ps {
namespace {

using namespace fixture;

ServerOptions options_for(Policy policy) {
  policy.workers = 3;
  return {.workers = 3,
          .first_server = 3,
          .servers = 1,
          .policy = policy,
          .optimizer = {.kind = optim::Kind::sgd, .lr = 0.1},
          .timeout = std::chrono::seconds(20),
          .survives_workers = true};
}

// A push without its payload, as a worker that is killed in the middle of it leaves it.
void push_half(net::Transport& t, Rank server) {
  const std::size_t floats = lay_out(kContents, 1).pieces[0].count;
  const Header header{.verb = Verb::push, .sequence = 1000, .lr = 0.1, .bytes = floats * sizeof(float)};
  net::send(t, server, std::as_bytes(std::span(&header, 1)), {"pushing"});
}

class Dropped : public ::testing::TestWithParam<net::Medium> {};

// Two workers make `steps` steps each; the third makes one and dies, `how` it likes.
Outcome train_with_a_death(net::Medium medium, const ServerOptions& o, int steps,
                           const std::function<void(net::Transport&)>& how) {
  Outcome outcome;
  outcome.replicas.resize(3);
  outcome.servers.resize(1);
  std::barrier started(3);
  std::barrier<> one_is_dead(3);
  std::barrier<> all_have_left(2);
  auto transports = net::unpinned_options(4, kPatience);
  transports.survives_peers = true;
  net::run_as_threads(medium, 4, transports, [&](net::Transport& t) {
    const int rank = to_int(t.rank());
    if (rank == 3) {
      outcome.servers[0] = serve(t, o);
      return;
    }
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    if (rank == 0) pieces.start(0, {});
    started.arrive_and_wait();
    const auto step = [&](int number) {
      buckets.set_gradients(rank, number);
      for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.push(b, o.optimizer.lr);
      for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.wait(b);
    };
    step(1);
    if (rank == 2) {
      how(t);
      one_is_dead.arrive_and_drop();
      return;  // its transport goes, as a killed process's would
    }
    one_is_dead.arrive_and_wait();
    for (int s = 2; s <= steps; ++s) step(s);
    connection.leave();
    all_have_left.arrive_and_wait();
    pieces.pull();
    connection.say_goodbye();
    outcome.replicas[static_cast<std::size_t>(rank)] = buckets.flat();
  });
  return outcome;
}

TEST_P(Dropped, OthersGoOnUnderEveryRuleThatWaitsForNobodyInParticular) {
  for (const Policy policy : {Policy{.consistency = Consistency::async},
                              Policy{.consistency = Consistency::ssp, .staleness = 1}, Policy{.backup = 1}}) {
    const auto o = options_for(policy);
    const auto outcome = train_with_a_death(GetParam(), o, 6, [](net::Transport&) {});
    EXPECT_EQ(outcome.replicas[0], outcome.replicas[1]);
    const auto pieces = static_cast<std::int64_t>(lay_out(kContents, 1).pieces.size());
    if (policy.consistency != Consistency::sync) {
      EXPECT_EQ(outcome.servers[0].applied, pieces * (6 + 6 + 1));
    } else {
      EXPECT_GE(outcome.servers[0].applied, pieces * 2 * 5);
    }
  }
}

// In shared memory a push is a header, whole or not there.
TEST(DroppedOverSockets, PushThatIsCutOffByDeathIsNotApplied) {
  const auto o = options_for({.consistency = Consistency::async});
  const auto whole = train_with_a_death(net::Medium::sockets, o, 2, [](net::Transport&) {});
  const auto cut =
      train_with_a_death(net::Medium::sockets, o, 2, [&](net::Transport& t) { push_half(t, Rank{3}); });
  EXPECT_EQ(cut.servers[0].applied, whole.servers[0].applied);
  EXPECT_EQ(cut.replicas[0], cut.replicas[1]);
}

// One pushes a gradient, one pushes nothing, one dies instead of pushing: the version is made of the first
// alone.
TEST_P(Dropped, RoundThatADeathClosesLeavesVoidPushesOut) {
  const auto o = options_for({});
  std::barrier started(3);
  std::vector<float> expected;
  std::vector<std::vector<float>> ended(2);
  auto transports = net::unpinned_options(4, kPatience);
  transports.survives_peers = true;
  net::run_as_threads(GetParam(), 4, transports, [&](net::Transport& t) {
    const int rank = to_int(t.rank());
    if (rank == 3) return void(serve(t, o));
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    if (rank == 0) pieces.start(0, {});
    started.arrive_and_wait();
    if (rank == 2) return;
    pieces.pull();
    buckets.set_gradients(rank, 1);
    if (rank == 0) {
      for (const auto& v : buckets.views) {
        for (std::size_t i = 0; i < v.parameters.size(); ++i)
          expected.push_back(v.parameters[i] - 0.1F * v.gradients[i]);
      }
    }
    for (std::size_t b = 0; b < kBuckets.size(); ++b) {
      pieces.push(b, 0.1, Reply::parameters, rank == 0 ? PushKind::gradient : PushKind::nothing);
    }
    for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.wait(b);
    ended[static_cast<std::size_t>(rank)] = buckets.flat();
    connection.leave();
    connection.say_goodbye();
  });
  EXPECT_EQ(ended[0], ended[1]);
  ASSERT_EQ(ended[0].size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(ended[0][i], expected[i], 1e-6) << i;
}

TEST_P(Dropped, DeathEndsTheServerWhereEveryWorkerIsNeeded) {
  auto o = options_for({});
  o.survives_workers = false;
  o.timeout = std::chrono::seconds(2);
  EXPECT_THROW(train_with_a_death(GetParam(), o, 2, [](net::Transport&) {}), RunError);
}

INSTANTIATE_TEST_SUITE_P(Media, Dropped, ::testing::Values(net::Medium::memory, net::Medium::sockets),
                         [](const auto& p) { return p.param == net::Medium::memory ? "Memory" : "Sockets"; });

}  // namespace
}  // namespace tutti::ps
