#include <gtest/gtest.h>

#include "collectives/simulate.h"

namespace tutti::collectives {
namespace {

std::size_t rounds_of(Operation operation, int world) {
  return make_schedule(operation, Algorithm::halving_doubling, Rank{0}, world, 1000).rounds.size();
}

TEST(HalvingDoubling, TakesTwoLogarithmsOfRounds) {
  EXPECT_EQ(rounds_of(Operation::all_reduce, 2), 2U);
  EXPECT_EQ(rounds_of(Operation::all_reduce, 8), 6U);
  EXPECT_EQ(rounds_of(Operation::all_reduce, 16), 8U);
}

TEST(HalvingDoubling, FoldsInAndOutWhereTheWorldIsNoPowerOfTwo) {
  EXPECT_EQ(rounds_of(Operation::all_reduce, 9), 8U);
  EXPECT_EQ(rounds_of(Operation::reduce_scatter, 9), 5U);
  EXPECT_EQ(rounds_of(Operation::all_gather, 9), 5U);
}

TEST(HalvingDoubling, SendsAsLittleAsARing) {
  for (const int world : {2, 4, 8, 16}) {
    for (int rank = 0; rank < world; ++rank) {
      const auto s =
          make_schedule(Operation::all_reduce, Algorithm::halving_doubling, Rank{rank}, world, 1024);
      EXPECT_EQ(elements_sent(s), 2U * 1024U / world * (world - 1U));
    }
  }
}

TEST(HalvingDoubling, PartnersAreHalfTheWorldApartFirst) {
  const auto s = make_schedule(Operation::reduce_scatter, Algorithm::halving_doubling, Rank{5}, 8, 800);
  ASSERT_EQ(s.rounds.size(), 3U);
  EXPECT_EQ(s.rounds[0].sends.at(0), (Send{Rank{1}, {0, 400}}));
  EXPECT_EQ(s.rounds[1].sends.at(0), (Send{Rank{7}, {600, 200}}));
  EXPECT_EQ(s.rounds[2].receives.at(0), (Receive{Rank{4}, {500, 100}, true}));
}

}  // namespace
}  // namespace tutti::collectives
