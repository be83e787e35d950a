#include <gtest/gtest.h>

#include "collectives/simulate.h"

namespace tutti::collectives {
namespace {

TEST(Tree, TakesALogarithmOfRoundsEachWay) {
  EXPECT_EQ(make_schedule(Operation::reduce, Algorithm::tree, Rank{3}, 17, 10, Rank{5}).rounds.size(), 5U);
  EXPECT_EQ(make_schedule(Operation::broadcast, Algorithm::tree, Rank{3}, 16, 10).rounds.size(), 4U);
  EXPECT_EQ(make_schedule(Operation::all_reduce, Algorithm::tree, Rank{3}, 6, 10).rounds.size(), 6U);
}

TEST(Tree, ReduceSendsTheBufferUpOnce) {
  for (int rank = 0; rank < 11; ++rank) {
    const auto s = make_schedule(Operation::reduce, Algorithm::tree, Rank{rank}, 11, 10, Rank{4});
    EXPECT_EQ(elements_sent(s), rank == 4 ? 0U : 10U);
  }
}

TEST(Tree, ScattersOnlyThePartsOfASubtree) {
  // Down from rank 0 of 4: parts 2 and 3 to rank 2, part 1 to rank 1.
  const auto s = make_schedule(Operation::reduce_scatter, Algorithm::tree, Rank{0}, 4, 8);
  ASSERT_EQ(s.rounds.size(), 4U);
  EXPECT_EQ(s.rounds[2].sends.at(0), (Send{Rank{2}, {4, 4}}));
  EXPECT_EQ(s.rounds[3].sends.at(0), (Send{Rank{1}, {2, 2}}));
}

}  // namespace
}  // namespace tutti::collectives
