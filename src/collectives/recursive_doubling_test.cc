#include <gtest/gtest.h>

#include "collectives/algorithms.h"

namespace tutti::collectives {
namespace {

Schedule of(Rank rank, int world) {
  return make_schedule(Operation::all_reduce, Algorithm::recursive_doubling, rank, world, 100);
}

TEST(RecursiveDoubling, TakesLog2OfTheWorldRoundsAndTwoMoreWhereThatIsNoPowerOfTwo) {
  EXPECT_EQ(of(Rank{0}, 2).rounds.size(), 1U);
  EXPECT_EQ(of(Rank{3}, 8).rounds.size(), 3U);
  EXPECT_EQ(of(Rank{5}, 6).rounds.size(), 4U);
}

TEST(RecursiveDoubling, WhoHandsOverSendsOnceAndItsPartnerOnceMore) {
  const std::size_t sent[] = {300, 100, 300, 100, 200, 200};
  for (int r = 0; r < 6; ++r) EXPECT_EQ(elements_sent(of(Rank{r}, 6)), sent[r]) << r;
}

TEST(RecursiveDoubling, IsForSumsByMessages) {
  const auto serves_it = [](Operation operation, ReduceOp op, Path path) {
    return serves(Algorithm::recursive_doubling, {operation, op, 64, 4, path});
  };
  EXPECT_TRUE(serves_it(Operation::all_reduce, ReduceOp::sum, Path::network));
  EXPECT_TRUE(serves_it(Operation::all_reduce, ReduceOp::average, Path::shared_memory));
  EXPECT_TRUE(serves_it(Operation::barrier, ReduceOp::max, Path::network));
  EXPECT_FALSE(serves_it(Operation::all_reduce, ReduceOp::max, Path::network));
  EXPECT_FALSE(serves_it(Operation::all_reduce, ReduceOp::sum, Path::in_place));
  EXPECT_FALSE(serves_it(Operation::broadcast, ReduceOp::sum, Path::network));
}

}  // namespace
}  // namespace tutti::collectives
