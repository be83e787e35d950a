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
#include "collectives/native_fixture.h"

namespace tutti::collectives {
namespace {

using contract::Filled;
using contract::input;
using contract::Memory;
using contract::total;
using fixture::kPatience;
using fixture::memory_of;
using fixture::run;
using fixture::Setting;
using fixture::Way;

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

}  // namespace
}  // namespace tutti::collectives
