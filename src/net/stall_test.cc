#include "net/stall.h"

#include <gtest/gtest.h>

#include <thread>

namespace tutti::net {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(Stall, IsOverWhenNobodyHasGotOnForTheTimeOut) {
  const auto board = StatusBoard::create(3);
  Stall stall(board, milliseconds(500));
  EXPECT_FALSE(stall.over());
  EXPECT_LE(stall.left(), milliseconds(500));
  while (!stall.over()) std::this_thread::yield();  // bounded by the test's own time limit
  EXPECT_GE(stall.standing(), milliseconds(500));
  EXPECT_LT(stall.standing(), milliseconds(1500)) << "a question counts no more than a second";
}

TEST(Stall, ProgressOfAnyRankLetsItBeginAnew) {
  const auto board = StatusBoard::create(3);
  Stall stall(board, nanoseconds(1));
  for (int r = 0; r < 3; ++r) {
    board.advance(Rank{r});
    EXPECT_FALSE(stall.over());
    EXPECT_EQ(stall.standing(), Clock::duration::zero());
  }
  board.say(Rank{2}, "evaluating");
  EXPECT_FALSE(stall.over());
}

TEST(Stall, BeatsAndWaitsAreNoProgress) {
  const auto board = StatusBoard::create(1);
  Stall stall(board, milliseconds(20));
  do {  // bounded by the test's own time limit
    board.beat(Rank{0});
    const Waiting waiting(board, Rank{0});
  } while (!stall.over());
}

TEST(Stall, TimeInWhichNobodyAskedCountsOnlyALittle) {
  const auto board = StatusBoard::create(1);
  Stall stall(board, hours(1));
  std::this_thread::sleep_for(milliseconds(1500));  // as if the process had been suspended
  EXPECT_FALSE(stall.over());
  EXPECT_EQ(stall.standing(), seconds(1));
}

TEST(Waiting, IsShownUntilTheLastThreadHasEndedIt) {
  const auto board = StatusBoard::create(2);
  EXPECT_FALSE(board.vitals(Rank{1}).waiting);
  {
    const Waiting one(board, Rank{1});
    {
      const Waiting other(board, Rank{1});
      EXPECT_TRUE(board.vitals(Rank{1}).waiting);
    }
    EXPECT_TRUE(board.vitals(Rank{1}).waiting);
    EXPECT_FALSE(board.vitals(Rank{0}).waiting);
  }
  EXPECT_FALSE(board.vitals(Rank{1}).waiting);
}

}  // namespace
}  // namespace tutti::net
