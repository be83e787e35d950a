// Every collective, algorithm, element type and operator, on every medium, against sums done by hand.
#include "collectives/native.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "collectives/engine_contract.h"
#include "net/inproc.h"

namespace tutti::collectives {
namespace {

using contract::Filled;
using contract::input;
using contract::Memory;
using contract::total;

constexpr auto kPatience = std::chrono::seconds(60);

// Where the buffer lies and how it travels. On hosts, ranks of two: even ones on one, odd ones on the other.
enum class Way { in_place, shared_messages, sockets, hosts_in_place, hosts };

struct Setting {
  Way way;
  std::optional<Algorithm> algorithm;
};

void run_on_hosts(const std::vector<int>& hosts, std::optional<Algorithm> algorithm,
                  const std::function<void(Collectives&)>& body) {
  net::run_on_hosts(hosts, static_cast<int>(hosts.size()), kPatience,
                    [&](net::Transport& t, net::Transport* neighbours) {
                      NativeEngine all(t, algorithm, {hosts, neighbours});
                      body(all);
                    });
}

void run(const Setting& s, int world, const std::function<void(Collectives&)>& body) {
  if (s.way == Way::hosts || s.way == Way::hosts_in_place) {
    std::vector<int> hosts;
    for (int r = 0; r < world; ++r) hosts.push_back(r % 2);
    return run_on_hosts(hosts, s.algorithm, body);
  }
  const auto medium = s.way == Way::sockets ? net::Medium::sockets : net::Medium::memory;
  net::run_as_threads(medium, world, kPatience, [&](net::Transport& t) {
    NativeEngine all(t, s.algorithm);
    body(all);
  });
}

Memory memory_of(Way way) {
  return way == Way::in_place || way == Way::hosts_in_place ? Memory::allocated : Memory::heap;
}

class NativeEngineWays : public ::testing::TestWithParam<Setting> {};

TEST_P(NativeEngineWays, AllOperationsAreExactAtAnyWorldAndLength) {
  const Setting s = GetParam();
  for (const int world : {1, 2, 3, 4, 5}) {
    run(s, world, [&](Collectives& all) { contract::all_operations_are_exact(all, memory_of(s.way)); });
  }
}

TEST_P(NativeEngineWays, ShardsAreAveragedInTheOrderOfTheirTree) {
  const Setting s = GetParam();
  for (const int world : {1, 2, 3, 4, 5, 8}) {
    run(s, world, [&](Collectives& all) {
      contract::shards_are_averaged_in_the_order_of_their_tree(all, memory_of(s.way));
    });
  }
}

// Several messages of a ring, and several blocks of one pass.
TEST(NativeEngine, ShardsOfLargeBuffersAreAveragedInTheOrderOfTheirTree) {
  for (const Setting& s : {Setting{Way::sockets, Algorithm::ring}, Setting{Way::in_place, std::nullopt}}) {
    run(s, 3, [&](Collectives& all) {
      contract::shards_are_averaged_in_the_order_of_their_tree(all, memory_of(s.way), {500'000});
    });
  }
}

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

// The all-reduce of a plain sum runs in shared memory, that of shards by messages: neither may be taken for
// the other.
TEST(NativeEngine, ShardsAreAveragedAlsoAfterAnAllReduceOfAsManyBytes) {
  constexpr std::size_t kCount = 1000;
  for (const Way way : {Way::hosts_in_place, Way::hosts}) {
    run({way, std::nullopt}, 4, [&](Collectives& all) {
      const auto before = all.allocate(kCount * sizeof(float));
      all.all_reduce({before.data(), kCount, DType::f32}, ReduceOp::sum);
      contract::shards_are_averaged_in_the_order_of_their_tree(all, memory_of(way), {kCount});
    });
  }
}

TEST_P(NativeEngineWays, ManySmallReductionsInARowStayInStep) {
  const Setting s = GetParam();
  run(s, 4, [&](Collectives& all) { contract::many_small_reductions_stay_in_step(all, memory_of(s.way)); });
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Way way : {Way::in_place, Way::shared_messages, Way::sockets, Way::hosts_in_place, Way::hosts}) {
    all.push_back({way, std::nullopt});
    for (std::size_t i = 0; i < algorithms().size(); ++i) all.push_back({way, static_cast<Algorithm>(i)});
  }
  return all;
}

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  static constexpr const char* kWays[] = {"InPlace", "SharedMessages", "Sockets", "HostsInPlace", "Hosts"};
  std::string name = kWays[static_cast<int>(info.param.way)];
  name += info.param.algorithm ? name_of(*info.param.algorithm) : "auto";
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, NativeEngineWays, ::testing::ValuesIn(settings()), setting_name);

TEST(NativeEngine, AveragesAreTheMeansInEveryType) {
  for (const Way way : {Way::in_place, Way::sockets, Way::hosts_in_place}) {
    for (const int world : {2, 3, 4}) {
      run({way, std::nullopt}, world,
          [](Collectives& all) { contract::averages_are_the_means_in_every_type(all); });
    }
  }
}

TEST(NativeEngine, MinimumAndMaximumOfANanAreNan) {
  for (const Way way : {Way::in_place, Way::sockets}) {
    run({way, std::nullopt}, 3,
        [](Collectives& all) { contract::minimum_and_maximum_of_a_nan_are_nan(all); });
  }
}

TEST(NativeEngine, RepeatedRunsGiveTheSameBitsOnEveryRank) {
  std::map<Way, std::vector<float>> first;
  for (int attempt = 0; attempt < 5; ++attempt) {
    for (const Way way : {Way::in_place, Way::sockets}) {
      run({way, Algorithm::direct}, 5, [&](Collectives& all) {
        const std::vector<float> result = contract::sums_of_the_same_bits(all);
        if (all.rank() != Rank{0}) return;
        // The two ways may add in different orders; each gives its own bits, always.
        auto& expected = first[way];
        if (expected.empty()) expected = result;
        ASSERT_EQ(std::memcmp(expected.data(), result.data(), result.size() * sizeof(float)), 0);
      });
    }
  }
}

TEST(NativeEngine, CountsWhatARingSends) {
  run({Way::in_place, Algorithm::ring}, 4, [](Collectives& all) {
    const auto bytes = all.allocate(4000);
    all.all_reduce({bytes.data(), 1000, DType::f32}, ReduceOp::sum);
    EXPECT_EQ(all.bytes_sent(), 2U * 3U * 1000U);  // 2 (N-1)/N x 4000
  });
}

// What each rank's ProtocolError says when each does its own; "" where there was none.
std::vector<std::string> errors_of(const Setting& s, int world,
                                   const std::function<void(Collectives&)>& work) {
  std::vector<std::string> errors(static_cast<std::size_t>(world));
  run(s, world, [&](Collectives& all) {
    try {
      all.barrier();  // not the first of all works
      work(all);
      all.barrier();
    } catch (const ProtocolError& e) {
      errors[static_cast<std::size_t>(to_int(all.rank()))] = e.what();
    }
  });
  return errors;
}

class NativeEngineInPlace : public ::testing::TestWithParam<Setting> {
 protected:
  using Call = std::function<void(Collectives&, Buffer)>;

  // The last rank does `odd`, with `odd_count` elements, all others do `usual`. Every rank must find out.
  static void expect_found(const Call& usual, const Call& odd, std::size_t odd_count,
                           const std::vector<std::string>& words) {
    for (int world = 2; world <= 5; ++world) {
      const auto errors = errors_of(GetParam(), world, [&](Collectives& all) {
        const auto bytes = all.allocate(8000);
        const bool is_odd = to_int(all.rank()) == world - 1;
        (is_odd ? odd : usual)(all, {bytes.data(), is_odd ? odd_count : 1000, DType::i32});
      });
      for (const auto& error : errors) {
        EXPECT_NE(error.find("ranks differ: rank "), std::string::npos) << world << " ranks: " << error;
        EXPECT_NE(error.find("rank " + std::to_string(world - 1) + " has "), std::string::npos) << error;
        for (const auto& word : words) EXPECT_NE(error.find(word), std::string::npos) << error;
      }
    }
  }
};

TEST_P(NativeEngineInPlace, CountsThatDifferAreFoundByEveryRankInEveryOperation) {
  const std::vector<Call> calls = {[](Collectives& all, Buffer b) { all.all_reduce(b, ReduceOp::sum); },
                                   [](Collectives& all, Buffer b) { all.reduce_scatter(b, ReduceOp::sum); },
                                   [](Collectives& all, Buffer b) { all.all_gather(b); },
                                   [](Collectives& all, Buffer b) { all.broadcast(b, Rank{0}); },
                                   [](Collectives& all, Buffer b) { all.reduce(b, ReduceOp::sum, Rank{0}); }};
  for (const auto& call : calls) {
    expect_found(call, call, 999, {"of 1000 int32", "of 999 int32"});
    expect_found(call, call, 1, {"of 1000 int32", "of 1 int32"});
    expect_found(call, call, 0, {"of 1000 int32", "of 0 int32"});
  }
}

TEST_P(NativeEngineInPlace, OperationsThatDifferAreFoundByEveryRank) {
  const Call all_reduce = [](Collectives& all, Buffer b) { all.all_reduce(b, ReduceOp::sum); };
  const Call broadcast = [](Collectives& all, Buffer b) { all.broadcast(b, Rank{0}); };
  const Call reduce = [](Collectives& all, Buffer b) { all.reduce(b, ReduceOp::sum, Rank{0}); };
  const Call all_gather = [](Collectives& all, Buffer b) { all.all_gather(b); };
  const Call barrier = [](Collectives& all, Buffer) { all.barrier(); };
  const Call nothing = [](Collectives&, Buffer) {};
  expect_found(all_reduce, broadcast, 1000, {"all-reduce of 1000", "broadcast of 1000"});
  expect_found(broadcast, reduce, 1000, {"broadcast of 1000", "reduce of 1000"});
  expect_found(all_gather, all_reduce, 1000, {"all-gather of 1000", "all-reduce of 1000"});
  expect_found(all_reduce, barrier, 1000, {"all-reduce of 1000", "barrier of 1"});
  expect_found(all_reduce, nothing, 1000, {"all-reduce of 1000", "barrier of 1"});
}

TEST_P(NativeEngineInPlace, RootsOperatorsTypesAndPlacesThatDifferAreFoundByEveryRank) {
  const Call usual = [](Collectives& all, Buffer b) { all.reduce(b, ReduceOp::sum, Rank{0}); };
  expect_found(usual, [](Collectives& all, Buffer b) { all.reduce(b, ReduceOp::sum, Rank{1}); }, 1000,
               {"root 0", "root 1"});
  expect_found(usual, [](Collectives& all, Buffer b) { all.reduce(b, ReduceOp::max, Rank{0}); }, 1000,
               {"sum", "max"});
  expect_found(usual,
               [](Collectives& all, Buffer b) {
                 all.reduce({b.data, b.count, DType::f32}, ReduceOp::sum, Rank{0});
               },
               1000, {"1000 int32", "1000 float32"});
  expect_found(usual,
               [](Collectives& all, Buffer b) {
                 b.data = static_cast<std::byte*>(b.data) + 64;
                 all.reduce(b, ReduceOp::sum, Rank{0});
               },
               1000, {"at byte 20480", "at byte 20544"});
  expect_found([](Collectives& all, Buffer b) { all.broadcast(b, Rank{0}); },
               [](Collectives& all, Buffer b) { all.broadcast(b, Rank{1}); }, 1000, {"root 0", "root 1"});
}

std::vector<Setting> settings_in_place() {
  std::vector<Setting> in_place = settings();
  std::erase_if(in_place, [](const Setting& s) { return s.way != Way::in_place; });
  return in_place;
}

INSTANTIATE_TEST_SUITE_P(All, NativeEngineInPlace, ::testing::ValuesIn(settings_in_place()), setting_name);

// By messages frames tell the length. Whoever reads one first says so and leaves the other alone.
TEST(NativeEngine, CountsThatDifferAreFoundByMessagesInSharedMemory) {
  for (const auto algorithm : {Algorithm::ring, Algorithm::direct}) {
    std::atomic<int> found{0};
    run({Way::shared_messages, algorithm}, 2, [&](Collectives& all) {
      std::vector<std::int32_t> heap(all.rank() == Rank{1} ? 999 : 1000);
      try {
        all.all_reduce({heap.data(), heap.size(), DType::i32}, ReduceOp::sum);
        ADD_FAILURE() << "rank " << to_int(all.rank());
      } catch (const ProtocolError&) {
        ++found;
      } catch (const PeerLost&) {
      }
    });
    EXPECT_GE(found, 1);
  }
}

// In one shot a rank may be a call ahead of another: what it lays out must not be what that one still reads.
TEST(NativeEngine, SmallAllReducesInARowDoNotReachIntoEachOther) {
  for (const Way way : {Way::in_place, Way::shared_messages, Way::sockets, Way::hosts_in_place, Way::hosts}) {
    run({way, std::nullopt}, 4, [&](Collectives& all) {
      std::vector<std::int32_t> heap(256);
      const auto shared = all.allocate(heap.size() * sizeof(std::int32_t));
      auto* data =
          memory_of(way) == Memory::allocated ? reinterpret_cast<std::int32_t*>(shared.data()) : heap.data();
      for (std::int32_t i = 0; i < 500; ++i) {
        for (std::size_t k = 0; k < heap.size(); ++k)
          data[k] = i * (to_int(all.rank()) + 1) + static_cast<int>(k);
        all.all_reduce({data, heap.size(), DType::i32}, ReduceOp::sum);
        for (std::size_t k = 0; k < heap.size(); ++k) {
          ASSERT_EQ(data[k], i * 10 + 4 * static_cast<int>(k)) << "call " << i << ", element " << k;
        }
      }
    });
  }
}

TEST(NativeEngine, CountsWhatTinyBuffersSend) {
  // Among 6, ranks 1 and 3 hand theirs over; 0 and 2 make two rounds and hand the result back; 4 and 5 make
  // two rounds.
  constexpr std::array<std::uint64_t, 6> kTimes = {3, 1, 3, 1, 2, 2};
  run({Way::sockets, std::nullopt}, 6, [&](Collectives& all) {
    std::vector<float> small(256, 1.0F);
    all.all_reduce({small.data(), small.size(), DType::f32}, ReduceOp::sum);
    EXPECT_EQ(all.bytes_sent(), kTimes[static_cast<std::size_t>(to_int(all.rank()))] * 1024U);
    EXPECT_EQ(small[255], 6.0F);
  });
}

TEST(NativeEngine, GathersTextsOfDifferentLengths) {
  run({Way::sockets, std::nullopt}, 3,
      [](Collectives& all) { contract::texts_of_different_lengths_are_gathered(all); });
}

TEST(NativeEngine, SharedMemoryThatDoesNotSufficeSaysSo) {
  run({Way::in_place, std::nullopt}, 1,
      [](Collectives& all) { EXPECT_THROW(all.allocate(std::size_t{1} << 50), RunError); });
}

TEST(NativeEngine, SharedMemoryThatIsInUseIsNotGivenOutAgain) {
  run({Way::in_place, std::nullopt}, 1, [](Collectives& all) {
    const std::size_t most_of_it = std::size_t{600} << 20;
    all.allocate(most_of_it);
    EXPECT_THROW(all.allocate(most_of_it), RunError);
  });
}

// Arenas of ranks lie one behind the other.
TEST(NativeEngine, MemoryThatIsTakenBackIsNobodyElses) {
  run({Way::in_place, std::nullopt}, 2, [](Collectives& all) {
    const std::size_t most_of_it = std::size_t{600} << 20;
    const auto own = all.allocate(most_of_it);
    std::ranges::fill(own.first(4000), std::byte{7});
    all.barrier("written");
    if (all.rank() == Rank{0}) {
      const auto mark = all.mark();
      all.allocate(4000);
      all.release(mark);
    }
    all.barrier("taken back");
    EXPECT_EQ(std::ranges::count(own.first(4000), std::byte{7}), 4000);
  });
}

TEST(NativeEngine, MemoryThatWasTakenBackIsGivenOutAgainAndZero) {
  for (const Way way : {Way::in_place, Way::sockets}) {
    // Three of the first would not fit beside each other.
    const std::size_t bytes = way == Way::in_place ? std::size_t{400} << 20 : 1 << 20;
    run({way, std::nullopt}, 1, [&](Collectives& all) {
      const auto kept = all.allocate(4000);
      std::ranges::fill(kept, std::byte{7});
      const auto mark = all.mark();
      for (int round = 0; round < 3; ++round) {
        const auto block = all.allocate(bytes);
        EXPECT_EQ(block[bytes / 2], std::byte{0});
        block[bytes / 2] = std::byte{9};
        all.release(mark);
      }
      EXPECT_EQ(std::ranges::count(kept, std::byte{7}), 4000);
    });
  }
}

TEST(NativeEngine, RankThatLeavesEndsTheCollectiveOfTheOthers) {
  for (const Way way : {Way::in_place, Way::sockets}) {
    run({way, std::nullopt}, 3, [&](Collectives& all) {
      contract::Filled f(all, memory_of(way), 1000);
      if (all.rank() == Rank{1}) return;
      try {
        all.all_reduce(f.buffer(), ReduceOp::sum, "bucket 3");
        ADD_FAILURE() << "rank " << to_int(all.rank());
      } catch (const PeerLost& e) {
        EXPECT_EQ(e.fault.operation, "all-reduce of bucket 3");
      }
    });
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
