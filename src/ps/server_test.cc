// Servers and workers as threads, over every medium, against a plain reference.
#include "ps/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <future>
#include <mutex>

#include "base/error.h"
#include "ps/server_fixture.h"

namespace tutti::ps {
namespace {

using fixture::Buckets;
using fixture::kBuckets;
using fixture::kContents;
using fixture::kModel;
using fixture::kPatience;
using fixture::Listener;
using fixture::noise;
using fixture::Passing;
using fixture::reference;
using fixture::train;
using fixture::verb_of;

// Counts the pushes that have left and not been answered; says when there are `many`.
class Watcher final : public Passing {
 public:
  Watcher(net::Transport& inner, int many) : Passing(inner), many_(many) {}
  void transfer(std::span<const net::Outgoing> out, std::span<const net::Incoming> in,
                const net::Activity& doing) override {
    if (!out.empty() && verb_of(out[0].bytes) == Verb::push) note(++unanswered_);
    inner_.transfer(out, in, doing);
    if (!in.empty() && pushed_ && verb_of(in[0].into) == Verb::piece) --unanswered_;
  }
  std::promise<void> reached;
  int most() const { return most_; }

 private:
  // On the one thread that pushes.
  void note(int now) {
    pushed_ = true;
    most_ = std::max(most_, now);
    if (now == many_ && !std::exchange(told_, true)) reached.set_value();
  }
  const int many_;
  std::atomic<int> unanswered_ = 0;
  std::atomic<bool> pushed_ = false;  // what is pulled before is no answer
  int most_ = 0;
  bool told_ = false;
};

// What travels is not sent long before a slower worker's: nothing would come of it but a longer queue there.
TEST(Sockets, AWorkerWaitsForSlowerOnesWithTheRestOfItsPieces) {
  constexpr int kUnderWay = 4;  // pieces a server
  const ServerOptions o{.workers = 2, .first_server = 2, .servers = 1, .policy = {.workers = 2}};
  std::barrier started(2);
  std::promise<std::future<void>> first_is_ahead;
  net::run_as_threads(net::Medium::sockets, 3, kPatience, [&](net::Transport& t) {
    if (t.rank() == Rank{2}) return void(serve(t, o));
    Watcher watcher(t, kUnderWay);
    if (t.rank() == Rank{0}) first_is_ahead.set_value(watcher.reached.get_future());
    Buckets buckets(watcher);
    Connection connection(watcher, o, kContents);
    PieceClient pieces(connection, buckets.views);
    if (t.rank() == Rank{0}) pieces.start(0, {});
    started.arrive_and_wait();
    if (t.rank() == Rank{1}) {
      EXPECT_EQ(first_is_ahead.get_future().get().wait_for(kPatience), std::future_status::ready);
    }
    for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.push(b, 0.1);
    for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.wait(b);
    if (t.rank() == Rank{0}) {
      EXPECT_EQ(watcher.most(), kUnderWay);
    }
    EXPECT_EQ(connection.bytes_sent(), 1446 * sizeof(float));
    connection.leave();
    connection.say_goodbye();
  });
}

// A server answers one worker at a time. A worker that waited for a certain server, while the answer of
// another fills its connection, would stop that one for everybody; in a circle, for ever.
TEST(Sockets, AWorkerTakesPulledPiecesFromWhicheverServerSpeaks) {
  const ServerOptions o{.workers = 1, .first_server = 1, .servers = 3, .policy = {.workers = 1}};
  net::run_as_threads(net::Medium::sockets, 4, kPatience, [&](net::Transport& t) {
    if (to_int(t.rank()) >= o.workers) return void(serve(t, o));
    Listener listener(t);
    Buckets buckets(listener);
    Connection connection(listener, o, kContents);
    PieceClient pieces(connection, buckets.views);
    pieces.start(0, {});
    listener.take_blind();  // servers introduce themselves in turn
    const auto started = buckets.flat();
    for (const auto& view : buckets.views) std::ranges::fill(view.parameters, 0.0F);
    pieces.pull();
    EXPECT_EQ(listener.take_blind(), 0);
    EXPECT_EQ(buckets.flat(), started);
    connection.leave();
    connection.say_goodbye();
  });
}

class Servers : public ::testing::TestWithParam<net::Medium> {};
TEST_P(Servers, NextSessionMayCutThePiecesElsewhere) {
  const ServerOptions o{.workers = 2,
                        .first_server = 2,
                        .policy = {.workers = 2},
                        .optimizer = {.lr = 0.1},
                        .timeout = std::chrono::seconds(5)};
  std::vector<float> ended;
  std::barrier together(o.workers);
  net::run_as_threads(GetParam(), 3, kPatience, [&](net::Transport& t) {
    const int rank = to_int(t.rank());
    if (rank >= o.workers) return (void)serve(t, o);
    const Buckets buckets(t);
    for (int session = 0; session < 2; ++session) {
      Contents contents = kContents;
      if (session == 1) contents.piece_bytes = 400;
      Connection connection(t, o, contents);
      PieceClient pieces(connection, buckets.views);
      if (rank == 0) pieces.start(session * 3, {});
      together.arrive_and_wait();
      pieces.pull();
      for (int step = session * 3 + 1; step <= session * 3 + 3; ++step) {
        buckets.set_gradients(rank, step);
        for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.push(b, o.optimizer.lr);
        for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.wait(b);
      }
      connection.leave();
      together.arrive_and_wait();
      connection.say_goodbye(session == 0);
    }
    if (rank == 0) ended = buckets.flat();
  });
  const auto expected = reference(o.optimizer, 2, 6);
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(ended[i], expected[i], 1e-5) << i;
}

INSTANTIATE_TEST_SUITE_P(All, Servers, ::testing::Values(net::Medium::memory, net::Medium::sockets),
                         [](const auto& p) { return p.param == net::Medium::memory ? "Memory" : "Sockets"; });

TEST_P(Servers, SyncEqualsTheReferenceAfterFiftySteps) {
  for (const auto kind : {optim::Kind::sgd, optim::Kind::momentum, optim::Kind::adam, optim::Kind::adagrad}) {
    for (const auto& [workers, servers] : {std::pair{1, 1}, {2, 1}, {3, 2}, {4, 3}}) {
      const ServerOptions o{.workers = workers,
                            .first_server = workers,
                            .servers = servers,
                            .policy = {.workers = workers},
                            .optimizer = {.kind = kind, .lr = 0.01}};
      const auto outcome = train(GetParam(), o, 50);
      const auto expected = reference(o.optimizer, workers, 50);
      for (const auto& replica : outcome.replicas) {
        ASSERT_EQ(replica, outcome.replicas[0]);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(replica[i], expected[i], 1e-5) << optim::name_of(kind) << " " << i;
        }
      }
    }
  }
}

// Sends every push twice, the second time after the next one.
class Stutter final : public Passing {
 public:
  using Passing::Passing;
  void transfer(std::span<const net::Outgoing> out, std::span<const net::Incoming> in,
                const net::Activity& doing) override {
    inner_.transfer(out, in, doing);
    if (out.empty()) return;
    if (awaiting_payload_) {
      awaiting_payload_ = false;
      last_.push_back({out[0].bytes.begin(), out[0].bytes.end()});
      return replay(doing);
    }
    if (out[0].bytes.size() != sizeof(Header)) return;
    Header header;
    std::memcpy(&header, out[0].bytes.data(), sizeof header);
    if (header.verb != Verb::push) {
      if (header.verb == Verb::leave) replay(doing);
      return;
    }
    earlier_ = std::move(last_);
    earlier_to_ = last_to_;
    last_to_ = out[0].to;
    last_ = {{out[0].bytes.begin(), out[0].bytes.end()}};
    awaiting_payload_ = header.bytes > 0;
    if (!awaiting_payload_) replay(doing);
  }

 private:
  void replay(const net::Activity& doing) {
    for (const auto& message : earlier_) {
      net::send(inner_, earlier_to_, message, doing);
      ++repeated;
    }
    earlier_.clear();
  }
  using Messages = std::vector<std::vector<std::byte>>;
  Messages last_, earlier_;
  Rank last_to_{}, earlier_to_{};
  bool awaiting_payload_ = false;

 public:
  int repeated = 0;
};

TEST_P(Servers, PushThatIsRepeatedAndReorderedIsAppliedOnce) {
  const ServerOptions o{
      .workers = 2, .first_server = 2, .servers = 2, .policy = {.workers = 2}, .optimizer = {.lr = 0.05}};
  const auto plain = train(GetParam(), o, 20);
  const auto stuttered =
      train(GetParam(), o, 20, [](net::Transport& t) { return std::make_unique<Stutter>(t); });
  EXPECT_EQ(stuttered.replicas, plain.replicas);
  EXPECT_EQ(plain.servers[0].repeated, 0);
  EXPECT_GT(stuttered.servers[0].repeated, 20);
  EXPECT_EQ(stuttered.servers[0].applied, plain.servers[0].applied);
}

TEST_P(Servers, AsyncAppliesEveryGradientAndMeasuresStaleness) {
  const ServerOptions o{.workers = 3,
                        .first_server = 3,
                        .servers = 2,
                        .policy = {.consistency = Consistency::async, .workers = 3},
                        .optimizer = {.lr = 0.01}};
  const auto outcome = train(GetParam(), o, 40);
  std::int64_t applied = 0;
  for (const auto& s : outcome.servers) {
    std::int64_t counted = 0;
    for (const auto& [behind, gradients] : s.staleness) counted += gradients;
    EXPECT_EQ(counted, s.applied);
    EXPECT_EQ(s.dropped, 0);
    applied += s.applied;
  }
  const auto pieces = static_cast<std::int64_t>(lay_out(kContents, o.servers).pieces.size());
  EXPECT_EQ(applied, 3 * 40 * pieces);
  // With sgd the order does not matter: each worker's every gradient counts once.
  std::size_t at = 0;
  for (std::size_t b = 0; b < kBuckets.size(); ++b) {
    for (std::size_t i = 0; i < kBuckets[b]; ++i, ++at) {
      double p = noise(99, b, i);
      for (std::uint64_t w = 0; w < 3; ++w) {
        for (std::uint64_t step = 1; step <= 40; ++step) p -= o.optimizer.lr * noise(w, step, at);
      }
      for (const auto& replica : outcome.replicas) ASSERT_NEAR(replica[at], p, 1e-5) << at;
    }
  }
}

// A void push counts, and an update is made without it.
TEST_P(Servers, UpdatesAreMadeFromGradientsThatAreNotVoid) {
  const ServerOptions o{
      .workers = 2, .first_server = 2, .servers = 2, .policy = {.workers = 2}, .optimizer = {.lr = 0.5}};
  // By step: who brings a gradient.
  const std::vector<std::vector<int>> bringing = {{0, 1}, {0}, {}, {1}, {0, 1}};
  std::barrier started(o.workers);
  std::vector<std::vector<float>> replicas(2);
  std::vector<ServerReport> reports;
  net::run_as_threads(GetParam(), 4, kPatience, [&](net::Transport& t) {
    const int rank = to_int(t.rank());
    if (rank >= o.workers) return void(serve(t, o));
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    if (rank == 0) pieces.start(0, {});
    started.arrive_and_wait();
    for (int step = 1; step <= 5; ++step) {
      const auto& who = bringing[static_cast<std::size_t>(step - 1)];
      const bool brings = std::ranges::find(who, rank) != who.end();
      buckets.set_gradients(rank, step);
      for (const auto& v : buckets.views) {
        if (!brings) std::ranges::fill(v.gradients, std::numeric_limits<float>::quiet_NaN());
      }
      for (std::size_t b = 0; b < kBuckets.size(); ++b) {
        pieces.push(b, o.optimizer.lr, Reply::parameters, brings ? PushKind::gradient : PushKind::nothing);
      }
      for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.wait(b);
      for (const auto& v : buckets.views) EXPECT_EQ(v.gradients[0], 0.0F) << "they are free for the next";
      EXPECT_EQ(pieces.version(), step);
    }
    connection.leave();
    const auto said = connection.say_goodbye();
    if (rank == 0) reports = said;
    replicas[static_cast<std::size_t>(rank)] = buckets.flat();
  });
  std::vector<double> p;
  for (std::size_t b = 0; b < kBuckets.size(); ++b) {
    for (std::size_t i = 0; i < kBuckets[b]; ++i) p.push_back(noise(99, b, i));
  }
  for (std::size_t i = 0; i < p.size(); ++i) {
    for (std::uint64_t step = 1; step <= 5; ++step) {
      const auto& who = bringing[step - 1];
      for (const int w : who) {
        p[i] -= 0.5 * noise(static_cast<std::uint64_t>(w), step, i) / static_cast<double>(who.size());
      }
    }
    ASSERT_NEAR(replicas[0][i], p[i], 1e-5) << i;
    ASSERT_EQ(replicas[1][i], replicas[0][i]);
  }
  std::int64_t applied = 0;
  for (const auto& r : reports) applied += r.applied;
  EXPECT_EQ(applied, 6 * static_cast<std::int64_t>(lay_out(kContents, o.servers).pieces.size()));
}

TEST_P(Servers, ServersThatOnlyAverageHandOutMeanGradients) {
  const ServerOptions o{.workers = 2,
                        .first_server = 2,
                        .servers = 2,
                        .policy = {.workers = 2},
                        .role = Role::mean,
                        .optimizer = {.lr = 0.05}};
  net::run_as_threads(GetParam(), 4, kPatience, [&](net::Transport& t) {
    if (to_int(t.rank()) >= 2) return (void)serve(t, o);
    Buckets buckets(t);
    for (auto& view : buckets.views) view.landing = view.gradients;
    const auto before = buckets.flat();
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    for (int step = 1; step <= 3; ++step) {
      buckets.set_gradients(to_int(t.rank()), step);
      for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.push(b, 0.05);
      for (std::size_t b = 0; b < kBuckets.size(); ++b) pieces.wait(b);
      const auto s = static_cast<std::uint64_t>(step);
      EXPECT_FLOAT_EQ(buckets.views[0].gradients[5], (noise(0, s, 5) + noise(1, s, 5)) / 2);
    }
    EXPECT_EQ(buckets.flat(), before);
    connection.leave();
    connection.say_goodbye();
  });
}

TEST_P(Servers, StateComesBackAsItWasStarted) {
  const ServerOptions o{.workers = 1,
                        .first_server = 1,
                        .servers = 2,
                        .policy = {.workers = 1},
                        .optimizer = {.kind = optim::Kind::adam, .lr = 0.01}};
  net::run_as_threads(GetParam(), 3, kPatience, [&](net::Transport& t) {
    if (to_int(t.rank()) >= 1) return (void)serve(t, o);
    Buckets buckets(t);
    Connection connection(t, o, kContents);
    PieceClient pieces(connection, buckets.views);
    std::vector<std::vector<std::vector<float>>> given(2);
    std::vector<std::vector<std::vector<float>>> got(2);
    const auto spans = [](auto& slots) {
      std::vector<StateSlot> views;
      for (auto& slot : slots) views.push_back({{slot.begin(), slot.end()}, {}});
      return views;
    };
    for (std::size_t slot = 0; slot < 2; ++slot) {
      for (const std::size_t n : kBuckets) {
        given[slot].emplace_back(n, static_cast<float>(slot + n));
        got[slot].emplace_back(n);
      }
    }
    pieces.start(17, spans(given));
    pieces.pull();
    EXPECT_EQ(pieces.version(), 17);
    pieces.fetch_state(spans(got));
    EXPECT_EQ(got, given);
    connection.leave();
    connection.say_goodbye();
  });
}

TEST_P(Servers, WorkerOfAnotherModelOrOptimizerIsRefusedWithBothValues) {
  const ServerOptions o{.workers = 2, .first_server = 2, .servers = 1, .policy = {.workers = 2}};
  const auto refusal = [&](const ServerOptions& theirs, const nlohmann::json& model) {
    std::string text;
    net::run_as_threads(GetParam(), 3, kPatience, [&](net::Transport& t) {
      if (to_int(t.rank()) == 2) {
        try {
          serve(t, o);
        } catch (const ConfigError& e) {
          text = e.what();
        }
        return;
      }
      const bool odd = to_int(t.rank()) == 1;
      Contents contents = kContents;
      if (odd) contents.model = model;
      EXPECT_THROW(Connection(t, odd ? theirs : o, contents), PeerLost);
    });
    return text;
  };
  const auto expect = [](const std::string& text, const std::vector<std::string>& words) {
    for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
  };
  expect(refusal(o, {{"wheels", {1446}, "float32"}}), {"worker 1", "model", "weights", "wheels"});
  expect(refusal(o, {{"weights", {1446}, "float64"}}), {"float32", "float64"});
  ServerOptions adam = o;
  adam.optimizer.kind = optim::Kind::adam;
  expect(refusal(adam, kModel), {"optimizer/kind", "sgd", "adam"});
}

}  // namespace
}  // namespace tutti::ps
