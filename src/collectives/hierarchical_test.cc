// Ranks that share hosts: the sum inside a host and between hosts, and who may speak of whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "collectives/native_fixture.h"

namespace tutti::collectives {
namespace {

using contract::Filled;
using contract::input;
using contract::Memory;
using contract::total;
using fixture::kPatience;
using fixture::memory_of;
using fixture::run_on_hosts;
using fixture::Way;

// Hosts whose shards are neighbours in the tree and hosts whose are not, of different sizes; stripes of one
// element and none.
TEST(Hierarchical, ShardsAreAveragedInTheOrderOfTheirTreeWhereverRanksAre) {
  for (const std::vector<int>& hosts :
       {std::vector{0, 0, 1, 1}, std::vector{0, 1, 1, 2, 2}, std::vector{0, 0, 0, 1, 1, 2, 2, 2}}) {
    for (const Way way : {Way::hosts_in_place, Way::hosts}) {
      run_on_hosts(hosts, std::nullopt, [&](Collectives& all) {
        contract::shards_are_averaged_in_the_order_of_their_tree(all, memory_of(way), {1, 3, 1001, 500'000});
      });
    }
  }
}

TEST(Hierarchical, RanksThatDifferInsideAHostAreNamedAsTheJobCountsThem) {
  run_on_hosts({0, 1, 0, 1}, std::nullopt, [](Collectives& all) {
    const auto self = static_cast<std::size_t>(to_int(all.rank()));
    const auto bytes = all.allocate(4 * (10 + self));
    try {
      all.neighbours()->all_reduce({bytes.data(), 10 + self, DType::f32}, ReduceOp::sum);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ProtocolError& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find(fmt::format("rank {} has", self)), std::string::npos) << text;
      EXPECT_NE(text.find(fmt::format("rank {} has", (self + 2) % 4)), std::string::npos) << text;
    }
  });
}

// Several blocks, the last of them shorter, on hosts of different sizes, also one with a single rank: the
// stages of a block overlap those of others.
TEST(Hierarchical, LargeBuffersInBlocksAreExactWhereverRanksAre) {
  constexpr std::size_t kCount = 2'500'003;
  const std::vector<std::vector<int>> worlds = {
      {0, 1, 0, 1}, {4, 4, 2, 2}, {0, 0, 1}, {0, 1, 1, 0, 1}, {0, 0, 1, 1, 2, 2}};
  for (const auto& hosts : worlds) {
    for (const Way way : {Way::hosts_in_place, Way::hosts}) {
      run_on_hosts(hosts, Algorithm::hierarchical, [&](Collectives& all) {
        Filled f(all, memory_of(way), kCount);
        for (int round = 0; round < 2; ++round) {
          f.refill(all.rank());
          all.all_reduce(f.buffer(), ReduceOp::sum);
          for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(f.values[i], total(all.world(), i)) << i;
        }
      });
    }
  }
}

TEST(Hierarchical, EveryRankEndsWithTheSameBits) {
  constexpr std::size_t kCount = 3'000'000;
  for (const std::vector<int>& hosts : {std::vector{0, 1, 0, 1}, std::vector{0, 0, 0, 1, 1}}) {
    std::vector<float> first;
    for (int attempt = 0; attempt < 2; ++attempt) {
      run_on_hosts(hosts, std::nullopt, [&](Collectives& all) {
        const auto bytes = all.allocate(kCount * sizeof(float));
        auto* x = reinterpret_cast<float*>(bytes.data());
        for (std::size_t i = 0; i < kCount; ++i) {
          x[i] =
              std::sin(static_cast<float>(i % 1000 + 1000 * static_cast<std::size_t>(to_int(all.rank())))) *
              1e3F;
        }
        all.all_reduce({x, kCount, DType::f32}, ReduceOp::average);
        std::vector<float> of_first(x, x + kCount);
        all.broadcast({of_first.data(), kCount, DType::f32}, Rank{0});
        EXPECT_EQ(std::memcmp(of_first.data(), x, bytes.size()), 0) << "rank " << to_int(all.rank());
        if (all.rank() != Rank{0}) return;
        if (first.empty()) first = of_first;
        EXPECT_EQ(std::memcmp(of_first.data(), first.data(), bytes.size()), 0) << "another time";
      });
    }
  }
}

// A link carries 2 (H - 1) / H of a buffer, however many ranks a host has.
TEST(Hierarchical, CountsWhatGoesInsideAndBetween) {
  run_on_hosts({0, 1, 0, 1}, std::nullopt, [](Collectives& all) {
    const auto bytes = all.allocate(8'000'000);
    all.all_reduce({bytes.data(), 2'000'000, DType::f32}, ReduceOp::sum);
    // Inside each brings its neighbour half of the buffer, twice; between, its half once.
    EXPECT_EQ(all.bytes_sent(), 2U * 4'000'000U + 4'000'000U);
    ASSERT_NE(all.neighbours(), nullptr);
    EXPECT_EQ(all.neighbours()->world(), 2);
    EXPECT_EQ(all.neighbours()->bytes_sent(), 2U * 4'000'000U);
  });
}

// Notes to whom its rank sends, and how much.
class Noting final : public net::Transport {
 public:
  explicit Noting(net::Transport& real) : real_(real) {}
  std::set<int> sent_to;
  std::map<int, std::size_t> bytes_to;

  Rank rank() const override { return real_.rank(); }
  int world() const override { return real_.world(); }
  void transfer(std::span<const net::Outgoing> out, std::span<const net::Incoming> in,
                const net::Activity& doing) override {
    for (const auto& o : out) {
      sent_to.insert(to_int(o.to));
      bytes_to[to_int(o.to)] += o.bytes.size();
    }
    real_.transfer(out, in, doing);
  }
  std::optional<Rank> wait_for_any(std::span<const Rank> peers, Clock::duration at_most,
                                   const net::Activity& doing) override {
    return real_.wait_for_any(peers, at_most, doing);
  }
  const net::StatusBoard& board() const override { return real_.board(); }
  net::PeerMemory* peer_memory() override { return real_.peer_memory(); }
  void cancel() override { real_.cancel(); }

 private:
  net::Transport& real_;
};

TEST(NativeEngine, RingCrossesEachHostsLinkOnceEachWayWhicheverRanksItHas) {
  const std::vector<int> hosts = {0, 1, 0, 1, 1};
  std::array<std::set<int>, 5> sent_to;
  net::run_on_hosts(hosts, 5, kPatience, [&](net::Transport& t, net::Transport* neighbours) {
    Noting noting(t);
    NativeEngine all(noting, Algorithm::ring, {hosts, neighbours});
    Filled f(all, Memory::heap, 1000);
    all.all_reduce(f.buffer(), ReduceOp::sum);
    EXPECT_EQ(f.values[7], total(5, 7));
    sent_to.at(static_cast<std::size_t>(to_int(t.rank()))) = noting.sent_to;
  });
  std::map<std::pair<int, int>, int> links;  // from host to host
  for (std::size_t from = 0; from < sent_to.size(); ++from) {
    EXPECT_EQ(sent_to[from].size(), 1U);
    for (const int to : sent_to[from]) ++links[{hosts[from], hosts[static_cast<std::size_t>(to)]}];
  }
  EXPECT_EQ((links[{0, 1}]), 1);
  EXPECT_EQ((links[{1, 0}]), 1);
}

TEST(Hierarchical, NeighboursReduceInPlaceBesideTheWholeWorld) {
  run_on_hosts({0, 1, 0, 1, 0}, std::nullopt, [](Collectives& all) {
    Filled f(all, Memory::allocated, 1000);
    all.neighbours()->reduce(f.buffer(), ReduceOp::sum, Rank{0});
    std::int32_t sum = 0;
    for (int r = to_int(all.rank()) % 2; r < 5; r += 2) sum += input(r, 7);
    if (all.neighbours()->rank() == Rank{0}) {
      EXPECT_EQ(f.values[7], sum);
    }
    f.refill(all.rank());
    all.all_reduce(f.buffer(), ReduceOp::sum);
    EXPECT_EQ(f.values[7], total(5, 7));
  });
}

TEST(Hierarchical, ShardsGoByMessagesAndThatIsSaid) {
  for (const auto asked : {std::optional<Algorithm>(), std::optional(Algorithm::hierarchical)}) {
    run_on_hosts({0, 1, 0, 1}, asked, [&](Collectives& all) {
      const Method method = all.method_of_shards(Operation::all_reduce, 4 << 20);
      EXPECT_EQ(method.algorithm, "hierarchical");
      EXPECT_EQ(method.reason,
                "4 ranks on 2 hosts: by messages, which keep the order of the shards, and between hosts only "
                "what a host has added up");
    });
  }
}

// 2 (H - 1) / H of the buffer on each link, as for a plain sum, where a host's shards make up one node.
TEST(Hierarchical, ShardsOfAHostCrossItsLinkAsOneSum) {
  constexpr std::size_t kCount = 600'000;
  const std::vector<int> hosts = {0, 0, 1, 1};
  std::array<std::map<int, std::size_t>, 4> bytes_to;
  net::run_on_hosts(hosts, 4, kPatience, [&](net::Transport& t, net::Transport* neighbours) {
    Noting noting(t);
    NativeEngine all(noting, std::nullopt, {hosts, neighbours});
    const ShardTree tree(8);
    std::vector<float> sum(kCount, 1.0F);
    const Buffer place{sum.data(), kCount, DType::f32};
    ASSERT_EQ(tree.places_of(4), 1);
    all.average_shards(Operation::all_reduce, {tree, {&place, 1}});
    EXPECT_EQ(sum[7], 0.5F);  // 4 sums of two shards each, over 8
    bytes_to.at(static_cast<std::size_t>(to_int(t.rank()))) = noting.bytes_to;
  });
  std::array<std::size_t, 2> sent{};  // by each host to the other
  for (std::size_t from = 0; from < 4; ++from) {
    for (const auto& [to, bytes] : bytes_to[from]) {
      if (hosts[from] != hosts[static_cast<std::size_t>(to)]) {
        sent[static_cast<std::size_t>(hosts[from])] += bytes;
      }
    }
  }
  EXPECT_EQ(sent[0], kCount * sizeof(float));
  EXPECT_EQ(sent[1], kCount * sizeof(float));
}

TEST(Hierarchical, RanksOnHostsOfTheirOwnHaveNoNeighbours) {
  run_on_hosts({0, 1, 2}, std::nullopt, [](Collectives& all) {
    EXPECT_EQ(all.neighbours(), nullptr);
    EXPECT_EQ(all.method(Operation::all_reduce, 1 << 20).algorithm, "ring");
  });
}

// One of either host leaves in the middle of a large buffer, which the other thread of each rank is at, too.
TEST(Hierarchical, RankThatLeavesEndsBothStagesOfTheOthers) {
  for (const int leaver : {0, 3}) {
    run_on_hosts({0, 1, 0, 1}, std::nullopt, [&](Collectives& all) {
      Filled f(all, Memory::allocated, 3'000'000);
      all.all_reduce(f.buffer(), ReduceOp::sum, "bucket 2");
      if (all.rank() == Rank{leaver}) return;
      try {
        all.all_reduce(f.buffer(), ReduceOp::sum, "bucket 3");
        ADD_FAILURE() << "rank " << to_int(all.rank());
      } catch (const PeerLost& e) {
        EXPECT_EQ(e.fault.rank, all.rank());
        EXPECT_TRUE(e.fault.operation.ends_with(" of bucket 3"))
            << "inside or between: " << e.fault.operation;
      }
    });
  }
}

// Neighbours tell each other what they are about to do, so that one which differs ends all of them; and what
// they would have sent other hosts is not waited for.
TEST(Hierarchical, CountsThatDifferAreFoundInsideAHost) {
  std::atomic<int> found{0};
  run_on_hosts({0, 1, 0, 1}, std::nullopt, [&](Collectives& all) {
    Filled f(all, Memory::allocated, 3'000'000);
    const std::size_t count = all.rank() == Rank{2} ? 2'999'999 : 3'000'000;
    try {
      all.all_reduce({f.values.data(), count, DType::i32}, ReduceOp::sum);
      ADD_FAILURE() << "rank " << to_int(all.rank());
    } catch (const ProtocolError&) {
      ++found;
    } catch (const PeerLost&) {
    }
  });
  EXPECT_GE(found, 2);
}

}  // namespace
}  // namespace tutti::collectives
