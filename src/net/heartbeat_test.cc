#include "net/heartbeat.h"

#include <gtest/gtest.h>

namespace tutti::net {
namespace {

// Blocks until the rank has beaten so often. Bounded by the test's own time limit.
void wait_for_beats(const StatusBoard& board, Rank rank, std::uint64_t count) {
  while (board.vitals(rank).beats < count) std::this_thread::yield();
}

TEST(Heartbeat, BeatsByItselfAndIsNoProgress) {
  const auto board = StatusBoard::create(2);
  const Heartbeat heartbeat(board, Rank{1});
  wait_for_beats(board, Rank{1}, 3);
  EXPECT_EQ(board.vitals(Rank{0}).beats, 0U);
  EXPECT_EQ(board.progress_of_all(), 0U);
  EXPECT_FALSE(board.vitals(Rank{1}).signed_off);
}

TEST(Heartbeat, EndsAtOnceAndSaysThatNoMoreBeatsFollow) {
  const auto board = StatusBoard::create(1);
  {
    const Heartbeat heartbeat(board, Rank{0});
    wait_for_beats(board, Rank{0}, 1);
    EXPECT_FALSE(board.vitals(Rank{0}).signed_off);
  }
  EXPECT_TRUE(board.vitals(Rank{0}).signed_off);
}

}  // namespace
}  // namespace tutti::net
