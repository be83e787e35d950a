// Rules of consistency, one at a time: who pushes when is written down, so that there is one right outcome.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <utility>

#include "ps/server_fixture.h"

namespace tutti::ps {
namespace {

using fixture::Buckets;
using fixture::kBuckets;
using fixture::kContents;
using fixture::kPatience;
using fixture::noise;

class Rules : public ::testing::TestWithParam<net::Medium> {};
INSTANTIATE_TEST_SUITE_P(All, Rules, ::testing::Values(net::Medium::memory, net::Medium::sockets),
                         [](const auto& p) { return p.param == net::Medium::memory ? "Memory" : "Sockets"; });

void make_step(PieceClient& pieces, const Buckets& buckets, int worker, int step, double lr) {
  buckets.set_gradients(worker, step);
  for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.push(b, lr);
  for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.wait(b);
}

// A worker that has made none of its steps lets another make as many as the bound says, and no more.
TEST_P(Rules, SspLetsGoOnUpToItsBoundAndNoFurther) {
  for (const int bound : {0, 2}) {
    const ServerOptions o{.workers = 2,
                          .first_server = 2,
                          .servers = 1,
                          .policy = {.consistency = Consistency::ssp, .workers = 2, .staleness = bound},
                          .optimizer = {.lr = 0.01}};
    std::promise<void> as_far_as_it_may;
    std::atomic<bool> further = false;
    std::barrier started(2);
    net::run_as_threads(GetParam(), 3, kPatience, [&](net::Transport& t) {
      if (t.rank() == Rank{2}) {
        EXPECT_EQ(serve(t, o).max_lead, bound);
        return;
      }
      const int rank = to_int(t.rank());
      Buckets buckets(t);
      Connection connection(t, o, kContents);
      PieceClient pieces(connection, buckets.views);
      if (rank == 0) pieces.start(0, {});
      started.arrive_and_wait();
      if (rank == 0) {
        for (int step = 1; step <= bound; ++step) make_step(pieces, buckets, rank, step, 0.01);
        as_far_as_it_may.set_value();
        make_step(pieces, buckets, rank, bound + 1, 0.01);
        further = true;
      } else {
        ASSERT_EQ(as_far_as_it_may.get_future().wait_for(kPatience), std::future_status::ready);
        pieces.pull();  // piece by piece: between any two answers the server hears the other worker, too
        EXPECT_FALSE(further);
        for (int step = 1; step <= bound + 1; ++step) make_step(pieces, buckets, rank, step, 0.01);
      }
      connection.leave();
      connection.say_goodbye();
    });
    EXPECT_TRUE(further);
  }
}

// Worker 1's gradient is four versions behind when it comes.
TEST_P(Rules, StaleGradientCountsLessIfItShallBeDamped) {
  for (const bool damped : {false, true}) {
    const ServerOptions o{.workers = 2,
                          .first_server = 2,
                          .servers = 1,
                          .policy = {.consistency = Consistency::async, .workers = 2},
                          .optimizer = {.lr = 0.5},
                          .damp_stale = damped};
    std::barrier turn(2);
    std::vector<float> ended;
    net::run_as_threads(GetParam(), 3, kPatience, [&](net::Transport& t) {
      if (t.rank() == Rank{2}) {
        const auto report = serve(t, o);
        EXPECT_EQ(report.staleness.at(4), report.applied / 5);
        EXPECT_EQ(report.staleness.at(0), report.applied / 5 * 4);
        return;
      }
      const int rank = to_int(t.rank());
      Buckets buckets(t);
      Connection connection(t, o, kContents);
      PieceClient pieces(connection, buckets.views);
      if (rank == 0) pieces.start(0, {});
      turn.arrive_and_wait();
      if (rank == 1) pieces.pull();
      turn.arrive_and_wait();
      for (int step = 1; rank == 0 && step <= 4; ++step) make_step(pieces, buckets, rank, step, 0.5);
      turn.arrive_and_wait();
      if (rank == 1) make_step(pieces, buckets, rank, 1, 0.5);
      connection.leave();
      turn.arrive_and_wait();
      if (rank == 1) ended = buckets.flat();
      connection.say_goodbye();
    });
    std::size_t at = 0;
    for (std::size_t b = 0; b < kBuckets.size(); ++b) {
      for (std::size_t i = 0; i < kBuckets[b]; ++i, ++at) {
        double p = noise(99, b, i);
        for (std::uint64_t step = 1; step <= 4; ++step) p -= 0.5 * noise(0, step, at);
        p -= 0.5 * noise(1, 1, at) / (damped ? 4 : 1);
        ASSERT_NEAR(ended[at], p, 1e-5) << at << (damped ? " damped" : "");
      }
    }
  }
}

// Several hundred, which are asked for some at a time.
TEST_P(Rules, EveryPieceIsPulledHoweverManyThereAre) {
  const ServerOptions o{.workers = 2, .first_server = 2, .servers = 2, .policy = {.workers = 2}};
  Contents contents = kContents;
  contents.piece_bytes = 16;
  ASSERT_GT(lay_out(contents, 2).pieces.size(), 300U);
  std::barrier turn(2);
  net::run_as_threads(GetParam(), 4, kPatience, [&](net::Transport& t) {
    if (to_int(t.rank()) >= 2) return void(serve(t, o));
    Buckets buckets(t);
    const auto first = buckets.flat();
    Connection connection(t, o, contents);
    PieceClient pieces(connection, buckets.views);
    if (t.rank() == Rank{0}) pieces.start(0, {});
    turn.arrive_and_wait();
    for (const auto& v : buckets.views) std::ranges::fill(v.parameters, 0.0F);
    pieces.pull();
    EXPECT_EQ(buckets.flat(), first);
    connection.leave();
    connection.say_goodbye();
  });
}

// All numbers of a version are one and the same here; half an update would show.
TEST_P(Rules, NobodySeesAPieceInTheMiddleOfItsUpdate) {
  constexpr std::size_t kCount = 200'000;
  constexpr int kSteps = 60;
  const ServerOptions o{.workers = 3,
                        .first_server = 3,
                        .servers = 1,
                        .policy = {.consistency = Consistency::async, .workers = 3},
                        .optimizer = {.lr = 1}};
  const Contents contents{
      .model = {{"weights", {kCount}, "float32"}}, .buckets = {kCount}, .piece_bytes = std::size_t{4} << 20};
  std::barrier turn(3);
  net::run_as_threads(GetParam(), 4, kPatience, [&](net::Transport& t) {
    if (t.rank() == Rank{3}) return void(serve(t, o));
    std::vector<float> own(2 * kCount);
    std::span<float> memory(own);
    if (auto* peers = t.peer_memory()) {
      memory = {reinterpret_cast<float*>(peers->arena(t.rank()).data()), own.size()};
    }
    const auto parameters = memory.first(kCount);
    const auto gradients = memory.subspan(kCount);
    std::ranges::fill(parameters, 1.0F);
    Connection connection(t, o, contents);
    PieceClient pieces(connection, {{parameters, gradients, parameters}});
    if (t.rank() == Rank{0}) pieces.start(0, {});
    turn.arrive_and_wait();
    int torn = 0;
    for (int step = 0; step < kSteps; ++step) {
      std::ranges::fill(gradients, 0.25F);
      pieces.push(0, 1);
      pieces.wait(0);
      torn += std::ranges::count(parameters, parameters.front()) != kCount ? 1 : 0;
    }
    EXPECT_EQ(torn, 0);
    connection.leave();
    turn.arrive_and_wait();
    pieces.pull();
    EXPECT_EQ(parameters.front(), 1.0F - 0.25F * 3 * kSteps);
    connection.say_goodbye();
  });
}

// A server's transport on which the second piece for rank 0 (the first ends its start) takes so long that a
// push of rank 1 is heard, and followed, before it has left.
class SlowToLeave final : public fixture::Passing {
 public:
  SlowToLeave(net::Transport& inner, std::size_t piece_bytes) : Passing(inner), piece_bytes_(piece_bytes) {}

  std::optional<Rank> wait_for_any(std::span<const Rank> peers, Clock::duration at_most,
                                   const net::Activity& doing) override {
    if (pushed_ && !std::exchange(followed_, true)) followed_promise_.set_value();
    return inner_.wait_for_any(peers, at_most, doing);
  }

  void transfer(std::span<const net::Outgoing> out, std::span<const net::Incoming> in,
                const net::Activity& doing) override {
    if (!out.empty() && out[0].to == Rank{0} && out[0].bytes.size() == piece_bytes_ && ++sent_ == 2) {
      const std::vector<std::byte> before(out[0].bytes.begin(), out[0].bytes.end());
      leaving_promise_.set_value();
      EXPECT_EQ(followed_promise_.get_future().wait_for(kPatience), std::future_status::ready);
      EXPECT_TRUE(std::ranges::equal(out[0].bytes, before)) << "the piece changed on its way";
    }
    inner_.transfer(out, in, doing);
    if (!in.empty() && in[0].from == Rank{1} && in[0].length == piece_bytes_) pushed_ = true;
  }

  std::future<void> leaving() { return leaving_promise_.get_future(); }

 private:
  const std::size_t piece_bytes_;
  int sent_ = 0;  // the outbox's thread alone
  std::promise<void> leaving_promise_;
  bool pushed_ = false, followed_ = false;  // the serving thread alone
  std::promise<void> followed_promise_;
};

// In shared memory nothing is sent: a gate guards it (the test before this one).
TEST(RulesOverSockets, PieceThatIsBeingSentNeitherChangesNorHoldsUpTheNextUpdate) {
  constexpr std::size_t kCount = 1000;
  const ServerOptions o{.workers = 2,
                        .first_server = 2,
                        .servers = 1,
                        .policy = {.consistency = Consistency::async, .workers = 2},
                        .optimizer = {.lr = 1}};
  const Contents contents{.model = {{"weights", {kCount}, "float32"}}, .buckets = {kCount}};
  std::promise<std::future<void>> leaving;
  std::barrier turn(2);
  net::run_as_threads(net::Medium::sockets, 3, kPatience, [&](net::Transport& t) {
    if (t.rank() == Rank{2}) {
      SlowToLeave slow(t, kCount * sizeof(float));
      leaving.set_value(slow.leaving());
      return void(serve(slow, o));
    }
    std::vector<float> parameters(kCount, 1.0F), gradients(kCount, 0.25F);
    Connection connection(t, o, contents);
    PieceClient pieces(connection, {{parameters, gradients, parameters}});
    if (t.rank() == Rank{0}) pieces.start(0, {});
    turn.arrive_and_wait();
    if (t.rank() == Rank{0}) {
      pieces.pull();
      EXPECT_EQ(std::ranges::count(parameters, 1.0F), kCount) << "the version that was asked for";
    } else {
      ASSERT_EQ(leaving.get_future().get().wait_for(kPatience), std::future_status::ready);
      pieces.push(0, 1);
      pieces.wait(0);
      EXPECT_EQ(std::ranges::count(parameters, 0.75F), kCount);
    }
    connection.leave();
    connection.say_goodbye();
  });
}

}  // namespace
}  // namespace tutti::ps
