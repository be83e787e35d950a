#include "launch/process_signals.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <thread>

namespace tutti::launch {
namespace {

using net::Request;

observe::JsonlSink unheard() {
  return {UniqueFd(), "nowhere"};
}

// Bounded by the test's time limit, as every wait here: a thread hears signals when it gets to run.
void wait_for(const std::function<bool()>& holds) {
  while (!holds()) std::this_thread::yield();
}

class ProcessSignalsTest : public ::testing::Test {
 protected:
  // Whoever runs the tests may ignore some, and then they stay ignored.
  ProcessSignalsTest() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
  }
};

TEST_F(ProcessSignalsTest, OneThatComesBeforeTheJobIsPassedOnWhenItIsThere) {
  ProcessSignals signals;
  ::raise(SIGTERM);
  wait_for([&] { return signals.leave_board() == SIGTERM; });
  const auto board = net::StatusBoard::create(2);
  signals.pass_on_to(board, Rank{1}, unheard());
  EXPECT_EQ(board.requests().asked(Request::stop), 1U);
}

TEST_F(ProcessSignalsTest, FirstStopIsAskedForInAnyProcessAndOthersChangeNothing) {
  const auto board = net::StatusBoard::create(2);
  ProcessSignals signals;
  signals.pass_on_to(board, Rank{1}, unheard());
  ::raise(SIGINT);
  wait_for([&] { return board.requests().asked(Request::stop) == 1; });
  ::raise(SIGTERM);
  ::raise(SIGHUP);
  EXPECT_EQ(signals.leave_board(), SIGINT);
}

TEST_F(ProcessSignalsTest, SaveIsAskedForInRankZerosProcessAlone) {
  const auto board = net::StatusBoard::create(2);
  {
    ProcessSignals others;
    others.pass_on_to(board, Rank{1}, unheard());
    ::raise(SIGUSR1);
    ::raise(SIGTERM);  // heard after the first
    wait_for([&] { return board.requests().asked(Request::stop) == 1; });
  }
  EXPECT_EQ(board.requests().asked(Request::save), 0U);
  ProcessSignals first;
  first.pass_on_to(board, Rank{0}, unheard());
  ::raise(SIGUSR1);
  wait_for([&] { return board.requests().asked(Request::save) == 1; });
}

TEST_F(ProcessSignalsTest, LaterUserSignalDoesNotEndTheProcess) {
  { const ProcessSignals signals; }
  ::raise(SIGUSR1);
}

}  // namespace
}  // namespace tutti::launch
