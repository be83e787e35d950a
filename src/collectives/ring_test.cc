#include <gtest/gtest.h>

#include "collectives/simulate.h"

namespace tutti::collectives {
namespace {

TEST(Ring, AllReduceSendsEachPartTwiceButOne) {
  constexpr std::size_t kCount = 1000;
  for (int world = 2; world <= 17; ++world) {
    for (int rank = 0; rank < world; ++rank) {
      const auto s = make_schedule(Operation::all_reduce, Algorithm::ring, Rank{rank}, world, kCount);
      EXPECT_EQ(s.rounds.size(), static_cast<std::size_t>(2 * (world - 1)));
      const double least = 2.0 * (world - 1) / world * kCount;
      EXPECT_NEAR(static_cast<double>(elements_sent(s)), least, 2.0);
    }
  }
}

TEST(Ring, TalksToNeighboursOnly) {
  for (const Operation operation : {Operation::all_reduce, Operation::broadcast, Operation::reduce}) {
    for (const Round& round : make_schedule(operation, Algorithm::ring, Rank{2}, 5, 100, Rank{4}).rounds) {
      for (const Send& s : round.sends) EXPECT_TRUE(s.peer == Rank{1} || s.peer == Rank{3});
      for (const Receive& r : round.receives) EXPECT_TRUE(r.peer == Rank{1} || r.peer == Rank{3});
    }
  }
}

TEST(Ring, BroadcastOfALargeBufferKeepsTheLinksBusy) {
  constexpr std::size_t kCount = 10'000'000;
  const auto s = make_schedule(Operation::broadcast, Algorithm::ring, Rank{1}, 4, kCount);
  EXPECT_EQ(elements_sent(s), kCount);
  EXPECT_EQ(s.rounds.size(), 24U + 2U);
  std::size_t busy = 0;
  for (const Round& round : s.rounds) busy += !round.sends.empty() && !round.receives.empty() ? 1 : 0;
  EXPECT_EQ(busy, 23U);
}

TEST(Ring, ChainsOfSmallBuffersAreNotCut) {
  EXPECT_EQ(make_schedule(Operation::broadcast, Algorithm::ring, Rank{1}, 4, 1000).rounds.size(), 3U);
  EXPECT_EQ(make_schedule(Operation::reduce, Algorithm::ring, Rank{1}, 4, 1000).rounds.size(), 3U);
}

}  // namespace
}  // namespace tutti::collectives
