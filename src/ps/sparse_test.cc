// Rows of embedding tables through servers, over every medium, against a plain reference.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "net/inproc.h"
#include "optim/step.h"
#include "ps/piece_client.h"
#include "ps/row_client.h"
#include "ps/server.h"

namespace tutti::ps {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);
constexpr std::size_t kRows = 203;
constexpr std::size_t kWidth = 5;

float initial(std::size_t i) {
  return static_cast<float>(i % 17) * 0.1F - 0.8F;
}

// The rows that a worker's batch reads in a step, with repetitions, and the gradient of each reading.
std::vector<std::int64_t> batch_of(int worker, int step) {
  SplitMix64 random(mix_seed({static_cast<std::uint64_t>(worker), static_cast<std::uint64_t>(step)}));
  std::vector<std::int64_t> rows(12);
  for (auto& r : rows) r = static_cast<std::int64_t>(random.below(kRows));
  rows[3] = rows[7];  // always one twice
  return rows;
}

float gradient_at(int worker, int step, std::size_t reading, std::size_t k) {
  SplitMix64 random(
      mix_seed({static_cast<std::uint64_t>(worker), static_cast<std::uint64_t>(step), reading, k}));
  return static_cast<float>(random.below(2001)) * 1e-3F - 1.0F;
}

// Into the client's memory; returns what to push.
std::vector<std::uint32_t> write_gradients(int worker, int step, RowClient& client) {
  const auto rows = batch_of(worker, step);
  std::vector<float> values;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t k = 0; k < kWidth; ++k) values.push_back(gradient_at(worker, step, r, k));
  }
  return sum_repeated_rows(client.places_of(0, rows), values, kWidth, client.gradients(0));
}

// In double, the textbook's rule for the rows that a step touches, nothing for the others.
std::vector<float> reference(const optim::Settings& s, int workers, int steps) {
  std::vector<double> p(kRows * kWidth), m(p.size()), v(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = initial(i);
  for (int t = 1; t <= steps; ++t) {
    std::map<std::size_t, double> gradient;
    for (int w = 0; w < workers; ++w) {
      const auto rows = batch_of(w, t);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        for (std::size_t k = 0; k < kWidth; ++k) {
          gradient[static_cast<std::size_t>(rows[r]) * kWidth + k] +=
              static_cast<double>(gradient_at(w, t, r, k)) / workers;
        }
      }
    }
    for (const auto& [i, g] : gradient) {
      if (s.kind == optim::Kind::sgd) p[i] -= s.lr * g;
      if (s.kind == optim::Kind::momentum) p[i] -= s.lr * (m[i] = optim::momentum_of(s) * m[i] + g);
      if (s.kind == optim::Kind::adagrad) p[i] -= s.lr * g / (std::sqrt(v[i] += g * g) + 1e-10);
      if (s.kind == optim::Kind::adam) {
        m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
        v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
        p[i] -= s.lr * (m[i] / (1 - std::pow(s.beta1, t))) /
                (std::sqrt(v[i] / (1 - std::pow(s.beta2, t))) + 1e-8);
      }
    }
  }
  return {p.begin(), p.end()};
}

// What a worker's gradients lie in, where peers can read it if there is such a place.
struct Room {
  explicit Room(net::Transport& t) : own(kFloats), all(own) {
    if (auto* memory = t.peer_memory())
      all = {reinterpret_cast<float*>(memory->arena(t.rank()).data()), kFloats};
  }
  static constexpr std::size_t kFloats = 16 + kRows * kWidth;
  std::vector<float> own;
  std::span<float> all;
};

struct Outcome {
  std::vector<std::vector<float>> tables;  // by worker, all rows pulled at the end
  std::uint64_t bytes_sent = 0;            // by worker 0
  std::uint64_t bytes_pulled = 0;          // from all servers, by all workers
};

// The pushes of all but the first few workers are void.
Outcome train(net::Medium medium, const ServerOptions& o, int partitions, int steps, int bringing = 1024) {
  Outcome outcome;
  outcome.tables.resize(static_cast<std::size_t>(o.workers));
  std::barrier together(o.workers);
  net::run_as_threads(medium, o.workers + o.servers, kPatience, [&](net::Transport& t) {
    const int rank = to_int(t.rank());
    if (rank >= o.workers) return (void)serve(t, o);
    std::vector<float> table(kRows * kWidth, -99.0F);  // what is not pulled is wrong
    if (rank == 0) {
      for (std::size_t i = 0; i < table.size(); ++i) table[i] = initial(i);
    }
    // A model has dense parameters, too.
    std::vector<float> dense(16);
    const Room room(t);
    const Contents contents{.model = {{"dense", {16}, "float32"}},
                            .buckets = {16},
                            .tables = {{"words", kRows, kWidth}},
                            .partitions = partitions};
    Connection connection(t, o, contents);
    PieceClient pieces(connection, {{dense, room.all.first(16), dense}});
    RowClient client(connection, {{table, room.all.subspan(16)}});
    if (rank == 0) {
      pieces.start(0, {});
      client.start(0, {});
    }
    together.arrive_and_wait();
    connection.take_busy_time();
    const auto begin = Clock::now();
    for (int step = 1; step <= steps; ++step) {
      const auto rows = write_gradients(rank, step, client);
      client.pull(0, rows);  // what forward reads
      client.wait();
      for (const auto r : batch_of(rank, step))
        EXPECT_NE(table[static_cast<std::size_t>(r) * kWidth], -99.0F);
      pieces.push(0, o.optimizer.lr);
      if (rank < bringing) {
        client.push(0, {rows}, o.optimizer.lr);
      } else {
        client.push(0, {}, o.optimizer.lr, PushKind::nothing);
      }
      client.expect(0, rows);
      pieces.wait(0);
      client.wait();
    }
    const auto busy = connection.take_busy_time();
    EXPECT_LE(busy, Clock::now() - begin) << "what is under way at once counts once";
    connection.leave();
    together.arrive_and_wait();
    if (rank == 0) outcome.bytes_sent = connection.bytes_sent();
    client.pull_all();
    together.arrive_and_wait();
    const auto reports = connection.say_goodbye();
    if (rank == 0) {
      for (const ServerReport& r : reports) outcome.bytes_pulled += r.bytes_sent;
    }
    outcome.tables[static_cast<std::size_t>(rank)] = table;
  });
  return outcome;
}

class SparseServers : public ::testing::TestWithParam<net::Medium> {};
INSTANTIATE_TEST_SUITE_P(All, SparseServers, ::testing::Values(net::Medium::memory, net::Medium::sockets),
                         [](const auto& p) { return p.param == net::Medium::memory ? "Memory" : "Sockets"; });

TEST_P(SparseServers, SyncEqualsTheReferenceAfterFiftySteps) {
  for (const auto kind : {optim::Kind::sgd, optim::Kind::momentum, optim::Kind::adam, optim::Kind::adagrad}) {
    for (const auto& [workers, servers, partitions] :
         {std::tuple{1, 1, 1}, {2, 1, 3}, {3, 2, 5}, {4, 3, 2}}) {
      const ServerOptions o{.workers = workers,
                            .first_server = workers,
                            .servers = servers,
                            .policy = {.workers = workers},
                            .optimizer = {.kind = kind, .lr = 0.01}};
      const auto outcome = train(GetParam(), o, partitions, 50);
      const auto expected = reference(o.optimizer, workers, 50);
      for (const auto& table : outcome.tables) {
        ASSERT_EQ(table, outcome.tables[0]);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(table[i], expected[i], 1e-5) << optim::name_of(kind) << " " << i;
        }
      }
    }
  }
}

TEST_P(SparseServers, AMeanIsFormedOfRowsThatAreNotVoid) {
  const ServerOptions o{.workers = 3,
                        .first_server = 3,
                        .servers = 2,
                        .policy = {.workers = 3},
                        .optimizer = {.kind = optim::Kind::momentum, .lr = 0.01}};  // sees the scale
  for (const int bringing : {2, 1, 0}) {
    const auto outcome = train(GetParam(), o, 2, 20, bringing);
    const auto expected = reference(o.optimizer, bringing, 20);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(outcome.tables[2][i], expected[i], 1e-5) << bringing << " " << i;
    }
  }
}

TEST_P(SparseServers, OnlyTouchedRowsTravel) {
  const ServerOptions o{.workers = 1, .first_server = 1, .servers = 1, .policy = {.workers = 1}};
  // Headers and row numbers both ways, values one way, and the 16 dense floats.
  const std::uint64_t most = 10 * (2 * sizeof(Header) + 2 * 12 * 4 + 12 * kWidth * 4 + 16 * 4);
  const auto outcome = train(GetParam(), o, 1, 10);
  EXPECT_LE(outcome.bytes_sent, most);
  // A batch has one row at least and 12 at most; then the whole table, once.
  const std::uint64_t table = kRows * kWidth * sizeof(float);
  EXPECT_GE(outcome.bytes_pulled, table + 10 * kWidth * sizeof(float));
  EXPECT_LE(outcome.bytes_pulled,
            table + 10 * (12 * kWidth + 16) * sizeof(float) + (kWidth + 16) * sizeof(float));
}

// As when a run finds a better number of partitions, or goes on from a checkpoint.
TEST_P(SparseServers, NextSessionGoesOnWithTheStateUnderOtherPartitions) {
  const ServerOptions o{.workers = 2,
                        .first_server = 2,
                        .servers = 2,
                        .policy = {.workers = 2},
                        .optimizer = {.kind = optim::Kind::adam, .lr = 0.01}};
  const std::vector<int> partitions = {1, 3, 2};
  std::vector<float> ended;
  std::barrier together(o.workers);
  net::run_as_threads(GetParam(), 4, kPatience, [&](net::Transport& t) {
    const int rank = to_int(t.rank());
    if (rank >= o.workers) return (void)serve(t, o);
    std::vector<float> table(kRows * kWidth);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = initial(i);
    std::vector<float> m(table.size()), v(table.size());
    const std::vector<StateSlot> state = {{{}, {m}}, {{}, {v}}};
    const Room room(t);
    for (int session = 0; session < 3; ++session) {
      const Contents contents{.tables = {{"words", kRows, kWidth}},
                              .partitions = partitions[static_cast<std::size_t>(session)]};
      Connection connection(t, o, contents);
      RowClient client(connection, {{table, room.all.subspan(16)}});
      if (rank == 0) client.start(session * 4, state);
      together.arrive_and_wait();
      client.pull_all();
      EXPECT_EQ(client.version(), session * 4);
      for (int step = session * 4 + 1; step <= session * 4 + 4; ++step) {
        client.push(0, {write_gradients(rank, step, client)}, o.optimizer.lr);
        client.wait();
      }
      connection.leave();
      together.arrive_and_wait();
      client.pull_all();
      if (rank == 0) client.fetch_state(state);
      together.arrive_and_wait();
      connection.say_goodbye(session < 2);
    }
    if (rank == 0) ended = table;
  });
  const auto expected = reference(o.optimizer, 2, 12);
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(ended[i], expected[i], 1e-5) << i;
}

// A server refuses what no client of ours sends: this header and this row.
void expect_refused(net::Medium medium, const std::function<Header(net::Transport&)>& header,
                    std::uint32_t row) {
  const ServerOptions o{.workers = 1, .first_server = 1, .servers = 1, .policy = {.workers = 1}};
  net::run_as_threads(medium, 2, kPatience, [&](net::Transport& t) {
    if (t.rank() == Rank{1}) {
      EXPECT_THROW(serve(t, o), ProtocolError);
      return;
    }
    std::vector<float> table(kRows * kWidth);
    const Room room(t);
    Connection connection(t, o, {.tables = {{"words", kRows, kWidth}}});
    RowClient client(connection, {{table, room.all.subspan(16)}});
    client.start(0, {});
    const Header sent = header(t);
    net::send(t, Rank{1}, std::as_bytes(std::span(&sent, 1)), {"pushing"});
    net::send(t, Rank{1}, std::as_bytes(std::span(&row, 1)), {"pushing"});
  });
}

// It reads gradients where a worker says that they lie, but nowhere outside that worker's memory.
TEST(SharedRows, GradientsOutsideTheWorkersMemoryAreRefused) {
  const auto half_outside = [](net::Transport& t) {
    const std::uint64_t end = t.peer_memory()->arena(t.rank()).size();
    return Header{.verb = Verb::push_rows, .slot = 1, .memory_at = end - (kWidth - 1) * sizeof(float)};
  };
  expect_refused(net::Medium::memory, half_outside, 0);
}

// Two rows are asked for, and a server of no good sends this many.
void expect_answer_refused(std::uint32_t rows) {
  const ServerOptions o{.workers = 1, .first_server = 1, .servers = 1, .policy = {.workers = 1}};
  net::run_as_threads(net::Medium::sockets, 2, kPatience, [&](net::Transport& t) {
    const net::Activity doing{"a server of a test"};
    if (t.rank() == Rank{1}) {
      receive_text(t, Rank{0}, receive_header(t, Rank{0}, doing), doing);
      send(t, Rank{0}, {.verb = Verb::welcome}, {}, doing);
      const Header wish = receive_header(t, Rank{0}, doing);
      ASSERT_EQ(wish.slot, 2U);
      std::array<std::uint32_t, 2> wanted{};
      net::receive(t, Rank{0}, std::as_writable_bytes(std::span(wanted)), doing);
      const std::vector<float> values(rows * kWidth);
      send(t, Rank{0}, {.verb = Verb::rows, .slot = rows, .bytes = values.size() * sizeof(float)},
           std::as_bytes(std::span(values)), doing);
      return;
    }
    std::vector<float> table(kRows * kWidth);
    const Room room(t);
    Connection connection(t, o, {.tables = {{"words", kRows, kWidth}}});
    RowClient client(connection, {{table, room.all.subspan(16)}});
    client.pull(0, std::array<std::uint32_t, 2>{3, 8});
    try {
      client.wait();
      ADD_FAILURE() << rows << " rows were taken for 2";
    } catch (const ProtocolError& e) {
      EXPECT_NE(std::string(e.what()).find("rows that nobody asked for"), std::string::npos) << e.what();
    }
  });
}

TEST(SparseClient, AnswerWithMoreOrFewerRowsThanWereAskedForIsRefused) {
  expect_answer_refused(3);
  expect_answer_refused(1);
}

TEST_P(SparseServers, TimeOfPiecesAndOfRowsUnderWayIsCounted) {
  const ServerOptions o{.workers = 1, .first_server = 1, .servers = 1, .policy = {.workers = 1}};
  net::run_as_threads(GetParam(), 2, kPatience, [&](net::Transport& t) {
    if (t.rank() == Rank{1}) return (void)serve(t, o);
    std::vector<float> table(kRows * kWidth), dense(16);
    const Room room(t);
    Connection connection(
        t, o, {.model = {{"dense", {16}, "float32"}}, .buckets = {16}, .tables = {{"words", kRows, kWidth}}});
    PieceClient pieces(connection, {{dense, room.all.first(16), dense}});
    RowClient client(connection, {{table, room.all.subspan(16)}});
    pieces.start(0, {});
    client.start(0, {});
    pieces.push(0, 0.1);
    pieces.wait(0);
    EXPECT_GT(connection.take_busy_time(), Clock::duration::zero());
    client.push(0, {write_gradients(0, 1, client)}, 0.1);
    client.expect(0, {});
    client.wait();
    EXPECT_GT(connection.take_busy_time(), Clock::duration::zero());
    EXPECT_EQ(connection.take_busy_time(), Clock::duration::zero());
    connection.leave();
    connection.say_goodbye();
  });
}

TEST_P(SparseServers, RowJustPastTheEndIsRefused) {
  expect_refused(
      GetParam(), [](net::Transport&) { return Header{.verb = Verb::push_rows, .slot = 1}; }, kRows);
}

TEST_P(SparseServers, AsyncAndSspApplyEveryWorkersRows) {
  for (const auto consistency : {Consistency::async, Consistency::ssp}) {
    const ServerOptions o{.workers = 3,
                          .first_server = 3,
                          .servers = 2,
                          .policy = {.consistency = consistency, .workers = 3, .staleness = 1},
                          .optimizer = {.lr = 0.01}};
    const auto outcome = train(GetParam(), o, 2, 20);
    // SGD adds up, in whatever order: the sum of all workers' gradients, each counted whole.
    std::vector<double> expected(kRows * kWidth);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = initial(i);
    for (int w = 0; w < 3; ++w) {
      for (int t = 1; t <= 20; ++t) {
        const auto rows = batch_of(w, t);
        for (std::size_t r = 0; r < rows.size(); ++r) {
          for (std::size_t k = 0; k < kWidth; ++k) {
            expected[static_cast<std::size_t>(rows[r]) * kWidth + k] -= 0.01 * gradient_at(w, t, r, k);
          }
        }
      }
    }
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(outcome.tables[0][i], expected[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace tutti::ps
