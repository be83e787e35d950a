#include "train/run_requests.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "collectives/native.h"
#include "net/inproc.h"

namespace tutti::train {
namespace {

using net::Request;

struct Workers {
  Workers(StepMode step_mode, std::int64_t period)
      : first(board, Rank{0}, 2, step_mode, period), second(board, Rank{1}, 2, step_mode, period) {}
  net::StatusBoard board = net::StatusBoard::create(2);
  RunRequests first;
  RunRequests second;
};

TEST(RunRequests, NothingIsDueUnasked) {
  for (const StepMode step_mode : {StepMode::together, StepMode::in_periods, StepMode::asynchronous}) {
    Workers w(step_mode, 1);
    for (std::int64_t step = 0; step < 3; ++step) {
      EXPECT_FALSE(w.first.after_step(step).stop);
      EXPECT_FALSE(w.second.after_step(step).save);
    }
  }
}

TEST(RunRequests, WorkersThatKeepStepStopAfterTheSameOne) {
  Workers w(StepMode::together, 1);
  w.second.after_step(4);
  w.board.requests().ask(Request::stop);  // the second has looked already, the first has not
  EXPECT_FALSE(w.first.after_step(4).stop) << "the second is in step 5";
  EXPECT_TRUE(w.first.after_step(5).stop);
  EXPECT_TRUE(w.second.after_step(5).stop);
}

TEST(RunRequests, OnlyTheFirstDecides) {
  Workers w(StepMode::together, 1);
  w.board.requests().ask(Request::stop);
  EXPECT_FALSE(w.second.after_step(4).stop);
  EXPECT_EQ(w.board.requests().decided(Request::stop), std::nullopt);
}

TEST(RunRequests, WorkersThatMeetStopAtTheirNextMeeting) {
  Workers w(StepMode::in_periods, 8);
  w.board.requests().ask(Request::stop);
  EXPECT_FALSE(w.first.after_step(8).stop);
  for (std::int64_t step = 9; step < 16; ++step) EXPECT_FALSE(w.second.after_step(step).stop) << step;
  EXPECT_TRUE(w.second.after_step(16).stop);
  EXPECT_TRUE(w.first.after_step(16).stop);
}

TEST(RunRequests, SaveIsDueOnceAndCanBeAskedForAgain) {
  Workers w(StepMode::together, 1);
  w.board.requests().ask(Request::save);
  EXPECT_FALSE(w.first.after_step(1).save);
  EXPECT_TRUE(w.first.after_step(2).save);
  w.board.requests().ask(Request::save);  // before the second has looked
  EXPECT_TRUE(w.second.after_step(2).save);
  EXPECT_FALSE(w.first.after_step(3).save);
  EXPECT_FALSE(w.second.after_step(3).save);
  EXPECT_TRUE(w.first.after_step(4).save);
  EXPECT_TRUE(w.second.after_step(4).save);
  EXPECT_FALSE(w.first.after_step(5).save);
}

TEST(RunRequests, SecondSaveWaitsUntilEveryoneHasSeenTheFirst) {
  Workers w(StepMode::in_periods, 8);
  w.board.requests().ask(Request::save);
  w.first.after_step(1);
  w.board.requests().ask(Request::save);
  EXPECT_TRUE(w.first.after_step(8).save);
  for (std::int64_t step = 9; step < 16; ++step) EXPECT_FALSE(w.first.after_step(step).save);
  EXPECT_TRUE(w.second.after_step(8).save) << "a slow worker still finds the first decision";
}

TEST(RunRequests, WorkersApartStopWhereverTheyAreAndTheFirstThatIsLeftSaves) {
  Workers w(StepMode::asynchronous, 1);
  w.board.drop(Rank{0});
  w.board.requests().ask(Request::save);
  EXPECT_TRUE(w.second.after_step(3).save);
  EXPECT_FALSE(w.second.after_step(4).save);
  w.board.requests().ask(Request::stop);
  EXPECT_TRUE(w.second.after_step(7).stop);
}

// Two workers on hosts whose boards nobody mirrors.
class TwoHosts : public ::testing::Test {
 protected:
  // On a thread each: their words meet in an all-reduce.
  void both(const std::function<void(int rank, RunRequests&)>& body) {
    net::run_as_threads(net::Medium::memory, 2, std::chrono::seconds(60), [&](net::Transport& transport) {
      collectives::NativeEngine all(transport);
      const int r = to_int(transport.rank());
      RunRequests requests(boards_[static_cast<std::size_t>(r)], Rank{r}, 2, StepMode::together, 1, &all);
      body(r, requests);
    });
  }
  // How many steps one does until a stop is due; at most a thousand.
  static std::int64_t steps_until_stop(RunRequests& requests,
                                       const std::function<void(std::int64_t)>& before_step) {
    for (std::int64_t step = 1; step < 1000; ++step) {
      before_step(step);
      if (requests.after_step(step).stop) return step;
    }
    return 1000;
  }
  static std::vector<net::StatusBoard> two_boards() {
    std::vector<net::StatusBoard> boards;
    for (int i = 0; i < 2; ++i) {
      boards.push_back(net::StatusBoard::create(2));
      boards.back().mirror().show_one_host();
    }
    return boards;
  }
  std::vector<net::StatusBoard> boards_ = two_boards();
};

TEST_F(TwoHosts, WhoeverIsAskedToStopAllDoAfterTheSameStep) {
  for (int asked = 0; asked < 2; ++asked) {
    boards_ = two_boards();
    std::array<std::int64_t, 2> stopped_after{};
    both([&](int rank, RunRequests& requests) {
      stopped_after[static_cast<std::size_t>(rank)] = steps_until_stop(requests, [&](std::int64_t step) {
        if (rank == asked && step == 20)
          boards_[static_cast<std::size_t>(rank)].requests().ask(Request::stop);
      });
    });
    EXPECT_EQ(stopped_after[0], stopped_after[1]) << "rank " << asked << " was asked";
    EXPECT_LT(stopped_after[0], 1000);
    EXPECT_GE(stopped_after[0], 20);
    for (const auto& board : boards_) EXPECT_EQ(board.requests().decided(Request::stop), stopped_after[0]);
  }
}

TEST_F(TwoHosts, SaveIsDueOnceForEachTimeItIsAskedFor) {
  boards_[0].requests().ask(Request::save);
  std::array<std::vector<std::int64_t>, 2> saved;
  both([&](int rank, RunRequests& requests) {
    for (std::int64_t step = 1; step <= 600; ++step) {
      if (rank == 0 && step == 300) boards_[0].requests().ask(Request::save);
      const auto asked = requests.after_step(step);
      EXPECT_FALSE(asked.stop);
      if (asked.save) saved[static_cast<std::size_t>(rank)].push_back(step);
    }
  });
  ASSERT_EQ(saved[0].size(), 2U);
  EXPECT_EQ(saved[0], saved[1]);
  EXPECT_EQ(saved[0][0], 1);
  EXPECT_GE(saved[0][1], 300);
}

TEST(StepsToNextTalk, AreAboutHalfASecondAndNeverMany) {
  using std::chrono::milliseconds;
  EXPECT_EQ(steps_to_next_talk(10, milliseconds(1000)), 5);
  EXPECT_EQ(steps_to_next_talk(1, std::chrono::seconds(20)), 1) << "long steps: after each";
  EXPECT_EQ(steps_to_next_talk(100, milliseconds(1)), 256) << "they may become slower";
  EXPECT_EQ(steps_to_next_talk(1, Clock::duration(0)), 256);
}

}  // namespace
}  // namespace tutti::train
