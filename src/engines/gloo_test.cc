// What every engine promises, of Gloo's, with ranks that are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "collectives/engine_contract.h"
#include "engines/engines.h"
#include "net/inproc.h"

namespace tutti::engines {
namespace {

namespace contract = collectives::contract;
using collectives::Collectives;
using collectives::ReduceOp;
using contract::Memory;

constexpr auto kPatience = std::chrono::seconds(60);

void run(net::Medium medium, int world, Clock::duration timeout,
         const std::function<void(Collectives&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);  // as the program does: Gloo writes to connections that are closed
  net::run_as_threads(medium, world, timeout, [&](net::Transport& t) {
    const auto all = find_engine("gloo").make(t, {.timeout = timeout});
    body(*all);
  });
}

TEST(GlooEngine, AllOperationsAreExactAtAnyWorldAndLength) {
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const int world : {1, 2, 3, 4}) {
      run(medium, world, kPatience, [&](Collectives& all) {
        contract::all_operations_are_exact(all, Memory::allocated);
        contract::all_operations_are_exact(all, Memory::heap);
      });
    }
  }
}

TEST(GlooEngine, ManySmallReductionsInARowStayInStep) {
  run(net::Medium::memory, 3, kPatience,
      [](Collectives& all) { contract::many_small_reductions_stay_in_step(all, Memory::allocated); });
}

TEST(GlooEngine, AveragesAreTheMeansInEveryType) {
  for (const int world : {2, 3, 4}) {
    run(net::Medium::memory, world, kPatience,
        [](Collectives& all) { contract::averages_are_the_means_in_every_type(all); });
  }
}

TEST(GlooEngine, MinimumAndMaximumOfANanAreNan) {
  run(net::Medium::memory, 3, kPatience,
      [](Collectives& all) { contract::minimum_and_maximum_of_a_nan_are_nan(all); });
}

TEST(GlooEngine, SumsHaveTheSameBitsOnEveryRank) {
  run(net::Medium::memory, 3, kPatience, [](Collectives& all) { contract::sums_of_the_same_bits(all); });
}

TEST(GlooEngine, TextsAreGatheredReusedMemoryIsZeroAndShardsAreAveragedInTheirTree) {
  run(net::Medium::sockets, 3, kPatience, [](Collectives& all) {
    contract::texts_of_different_lengths_are_gathered(all);
    contract::memory_that_was_taken_back_is_zero_again(all);
    contract::shards_are_averaged_in_the_order_of_their_tree(all, Memory::heap, {1, 100'000});
  });
}

TEST(GlooEngine, RankThatLeavesEndsTheCollectiveOfTheOthersWhichSayWhatItWas) {
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    run(medium, 3, kPatience, [&](Collectives& all) {
      if (all.rank() == Rank{1}) return;
      std::vector<float> values(1000);
      try {
        all.all_reduce({values.data(), values.size(), DType::f32}, ReduceOp::sum, "bucket 3");
        ADD_FAILURE() << "rank " << to_int(all.rank());
      } catch (const PeerLost& e) {
        EXPECT_EQ(e.fault.operation, "all-reduce of bucket 3");
      }
    });
  }
}

// A rank that does not come, though it lives, is waited for as long as somebody gets on, and then named.
TEST(GlooEngine, RankThatDoesNotComeIsNamedByATimeoutAndNoCallWorksAfterwards) {
  std::atomic<int> waiting{1};
  run(net::Medium::memory, 2, std::chrono::milliseconds(300), [&](Collectives& all) {
    if (all.rank() == Rank{1}) return waiting.wait(1);
    const auto release = [&] {
      waiting = 0;
      waiting.notify_all();
    };
    std::int32_t value = 1;
    try {
      all.all_reduce({&value, 1, DType::i32}, ReduceOp::sum, "bucket 3");
      ADD_FAILURE();
    } catch (const Timeout& e) {
      EXPECT_EQ(e.fault.peer, Rank{1});
      EXPECT_EQ(e.fault.operation, "all-reduce of bucket 3");
    }
    EXPECT_THROW(all.barrier(), RunError) << "it is of no use any more";
    release();
  });
}

// Gloo goes on with a call that we have given up as soon as the late rank comes.
TEST(GlooEngine, NothingIsWrittenToABufferAfterItsCallHasFailed) {
  std::signal(SIGPIPE, SIG_IGN);
  constexpr std::int32_t kOurs = 7;
  std::vector<std::int32_t> buffer(1000, kOurs);  // rank 0's; the process may have freed it
  std::atomic<bool> given_up = false;
  std::atomic<bool> done = false;
  const auto timeout = std::chrono::milliseconds(300);
  net::run_as_threads(net::Medium::memory, 2, timeout, [&](net::Transport& t) {
    auto all = find_engine("gloo").make(t, {.timeout = t.rank() == Rank{0} ? timeout : kPatience});
    if (t.rank() == Rank{0}) {
      EXPECT_THROW(all->all_reduce({buffer.data(), buffer.size(), DType::i32}, ReduceOp::sum), Timeout);
      given_up = true;
      given_up.notify_all();
      done.wait(false);
      all.reset();  // Gloo is through with the call
    } else {
      given_up.wait(false);
      std::vector<std::int32_t> late(1000, 1);
      all->all_reduce({late.data(), late.size(), DType::i32}, ReduceOp::sum);
      EXPECT_EQ(late, std::vector<std::int32_t>(1000, kOurs + 1)) << "the call did go on";
      done = true;
      done.notify_all();
    }
  });
  EXPECT_EQ(buffer, std::vector<std::int32_t>(1000, kOurs));
}

TEST(GlooEngine, CancelEndsABlockedCall) {
  std::atomic<int> waiting{1};
  run(net::Medium::memory, 2, kPatience, [&](Collectives& all) {
    if (all.rank() == Rank{1}) return waiting.wait(1);
    std::thread canceller([&] { all.cancel(); });
    EXPECT_THROW(all.barrier("the end"), RunError);
    canceller.join();
    waiting = 0;
    waiting.notify_all();
  });
}

}  // namespace
}  // namespace tutti::engines
