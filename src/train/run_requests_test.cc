#include "train/run_requests.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tutti::train
