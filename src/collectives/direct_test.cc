#include <gtest/gtest.h>

#include "collectives/simulate.h"

namespace tutti::collectives {
namespace {

TEST(Direct, AllReduceTakesTwoRoundsInAnyWorld) {
  for (int world = 2; world <= 17; ++world) {
    const auto s = make_schedule(Operation::all_reduce, Algorithm::direct, Rank{1}, world, 1000);
    EXPECT_EQ(s.rounds.size(), 2U);
    EXPECT_NEAR(static_cast<double>(elements_sent(s)), 2.0 * (world - 1) / world * 1000, world);
  }
}

TEST(Direct, CombinesInAscendingOrderOfSender) {
  const auto s = make_schedule(Operation::reduce_scatter, Algorithm::direct, Rank{2}, 4, 8);
  const std::vector<Receive> expected{
      {Rank{0}, {4, 2}, true}, {Rank{1}, {4, 2}, true}, {Rank{3}, {4, 2}, true}};
  ASSERT_EQ(s.rounds.size(), 1U);
  EXPECT_EQ(s.rounds[0].receives, expected);
}

TEST(Direct, SendsStartWithTheNextRank) {
  const auto s = make_schedule(Operation::reduce_scatter, Algorithm::direct, Rank{2}, 4, 8);
  const std::vector<Send> expected{{Rank{3}, {6, 2}}, {Rank{0}, {0, 2}}, {Rank{1}, {2, 2}}};
  EXPECT_EQ(s.rounds.at(0).sends, expected);
}

TEST(Direct, BroadcastAndReduceTakeOneRound) {
  EXPECT_EQ(make_schedule(Operation::broadcast, Algorithm::direct, Rank{0}, 9, 10, Rank{3}).rounds.size(),
            1U);
  EXPECT_EQ(make_schedule(Operation::reduce, Algorithm::direct, Rank{0}, 9, 10, Rank{3}).rounds.size(), 1U);
}

}  // namespace
}  // namespace tutti::collectives
