#include "net/status_board.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"

namespace tutti::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(StatusBoard, ShowsEachRanksOwnWordsThroughAnotherMapping) {
  const auto board = StatusBoard::create(3);
  const auto other = StatusBoard::open(UniqueFd(::dup(board.fd())));
  ASSERT_EQ(other.ranks(), 3);
  board.say(Rank{1}, "evaluating");
  board.beat(Rank{2});
  EXPECT_EQ(other.doing(Rank{1}), "evaluating");
  EXPECT_EQ(other.doing(Rank{0}), "");
  EXPECT_EQ(other.vitals(Rank{2}).beats, 1U);
  EXPECT_EQ(other.vitals(Rank{1}).beats, 0U);
  EXPECT_EQ(other.vitals(Rank{1}).progress, 1U) << "to say something is to get on";
  EXPECT_EQ(other.progress_of_all(), 1U);
  board.say(Rank{1}, std::string(500, 'x'));
  EXPECT_EQ(other.doing(Rank{1}), std::string(StatusBoard::kLongestText, 'x'));
}

TEST(StatusBoard, DescriptorOfSomethingElseIsRefused) {
  EXPECT_THROW(StatusBoard::open(make_memory_file("small", 100)), RunError);
  EXPECT_THROW(StatusBoard::open(make_memory_file("zeros", 8192)), RunError);
}

TEST(StatusBoard, RequestsAreCountedAndDecidedOnce) {
  const auto board = StatusBoard::create(1);
  EXPECT_EQ(board.requests().asked(Request::save), 0U);
  EXPECT_EQ(board.requests().decided(Request::save), std::nullopt);
  board.requests().ask(Request::save);
  board.requests().ask(Request::save);
  board.requests().decide(Request::save, 17);
  EXPECT_EQ(board.requests().asked(Request::save), 2U);
  EXPECT_EQ(board.requests().asked(Request::stop), 0U);
  EXPECT_EQ(board.requests().decided(Request::save), 17);
  EXPECT_EQ(board.requests().decided(Request::stop), std::nullopt);
}

TEST(StatusBoard, LowestRankThatIsLeftIsFirst) {
  const auto board = StatusBoard::create(4);
  EXPECT_EQ(first_left(board, 3), Rank{0});
  board.drop(Rank{0});
  board.drop(Rank{1});
  EXPECT_EQ(first_left(board, 3), Rank{2});
  EXPECT_EQ(dropped(board), (std::vector<Rank>{Rank{0}, Rank{1}}));
}

TEST(StatusBoard, MeetingWaitsForAllThatAreLeftAndEveryoneSeesTheSameRanks) {
  const auto board = StatusBoard::create(4);
  std::vector<std::vector<Rank>> seen(4);
  std::vector<std::thread> ranks;
  for (const int r : {0, 1, 3}) {
    ranks.emplace_back([&, r] {
      seen[static_cast<std::size_t>(r)] = board.barrier_of_survivors(Rank{r}, 4, 1, seconds(60), "the end");
    });
  }
  board.drop(Rank{2});
  for (auto& r : ranks) r.join();
  const std::vector<Rank> left{Rank{0}, Rank{1}, Rank{3}};
  for (const int r : {0, 1, 3}) EXPECT_EQ(seen[static_cast<std::size_t>(r)], left) << r;
}

TEST(StatusBoard, WhoDiesAfterAMeetingIsMissingInTheNext) {
  const auto board = StatusBoard::create(2);
  std::thread other(
      [&] { EXPECT_EQ(board.barrier_of_survivors(Rank{1}, 2, 1, seconds(60), "first").size(), 2U); });
  EXPECT_EQ(board.barrier_of_survivors(Rank{0}, 2, 1, seconds(60), "first").size(), 2U);
  other.join();
  board.drop(Rank{0});
  EXPECT_EQ(board.barrier_of_survivors(Rank{1}, 2, 2, seconds(60), "second"), std::vector<Rank>{Rank{1}});
}

TEST(StatusBoard, WhoLeavesWithoutComingIsLostAndWhoComesFirstIsNot) {
  const auto board = StatusBoard::create(2);
  std::thread other([&] {
    EXPECT_EQ(board.barrier_of_survivors(Rank{1}, 2, 1, seconds(60), "first").size(), 2U);
    board.leave(Rank{1});
  });
  EXPECT_EQ(board.barrier_of_survivors(Rank{0}, 2, 1, seconds(60), "first").size(), 2U);
  other.join();
  EXPECT_THROW(board.barrier_of_survivors(Rank{0}, 2, 2, seconds(60), "second"), PeerLost);
}

TEST(StatusBoard, RankZeroThatLeavesWithoutComingIsLostToo) {
  const auto board = StatusBoard::create(2);
  board.leave(Rank{0});
  try {
    board.barrier_of_survivors(Rank{1}, 2, 1, seconds(60), "the end");
    ADD_FAILURE() << "rank 0 never came";
  } catch (const PeerLost& e) {
    EXPECT_EQ(e.fault.peer, Rank{0});
  }
}

// Killed at some moment of a loop that does nothing but write: nearly always within a word.
TEST(StatusBoard, WordsOfARankThatWasKilledOverThemCanBeRead) {
  for (int i = 0; i < 8; ++i) {
    const auto board = StatusBoard::create(1);
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) board.say(Rank{0}, std::string_view("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
    }
    while (board.vitals(Rank{0}).progress == 0) std::this_thread::yield();
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(board.doing(Rank{0}).starts_with("x"));
  }
}

TEST(StatusBoard, MeetingNamesWhoDoesNotComeOnceNobodyGetsOn) {
  const auto board = StatusBoard::create(3);
  std::thread other([&] {
    EXPECT_THROW(board.barrier_of_survivors(Rank{2}, 3, 1, milliseconds(300), "the end"), Timeout);
  });
  try {
    board.barrier_of_survivors(Rank{0}, 3, 1, milliseconds(300), "the end");
    ADD_FAILURE() << "rank 1 never came";
  } catch (const Timeout& e) {
    EXPECT_EQ(e.fault.peer, Rank{1});
    EXPECT_EQ(e.fault.operation, "the end");
  }
  other.join();
}

}  // namespace
}  // namespace tutti::net
