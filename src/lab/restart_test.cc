#include "lab/restart.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace tutti::lab {
namespace {

using launch::Outcome;

const Outcome kKilled{.exit_code = 1, .line = "rank 1 was killed by SIGKILL"};

// A job whose tries end as a list says; nobody waits.
struct Scripted {
  std::vector<Outcome> ends;
  int signal_in_pause = 0;

  std::size_t runs = 0;
  std::vector<std::string> said{};
  std::vector<int> pauses{};
  int rewound = 0;

  Outcome run(int restarts) {
    return run_with_restarts({.restarts = restarts,
                              .run = [this] { return ends.at(runs++); },
                              .rewind =
                                  [this](const Outcome&) {
                                    ++rewound;
                                    return "step 20";
                                  },
                              .say = [this](const std::string& line) { said.push_back(line); },
                              .pause =
                                  [this](std::chrono::seconds s) {
                                    pauses.push_back(static_cast<int>(s.count()));
                                    return signal_in_pause;
                                  }});
  }
};

TEST(Restart, AJobThatFailsIsStartedAgainUntilItEndsWell) {
  Scripted job{{kKilled, kKilled, {}}};
  EXPECT_EQ(job.run(3).exit_code, 0);
  EXPECT_EQ(job.runs, 3U);
  EXPECT_EQ(job.rewound, 2);
  ASSERT_EQ(job.said.size(), 2U);
  EXPECT_EQ(job.said[1], "rank 1 was killed by SIGKILL; starting again from step 20 in 2 s (restart 2 of 3)");
}

TEST(Restart, IsTriedSoOftenAndNotMore) {
  Scripted job{{kKilled, kKilled, kKilled}};
  const auto outcome = job.run(2);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(job.runs, 3U);
  EXPECT_NE(outcome.line.find("started again 2 times"), std::string::npos) << outcome.line;
  Scripted never{{kKilled}};
  EXPECT_EQ(never.run(0).line, kKilled.line);
}

TEST(Restart, WhatTheUserGaveOrAskedForOrWouldComeAgainIsNotTriedAgain) {
  for (const Outcome& end :
       {Outcome{.exit_code = 2, .line = "a damaged file"},
        Outcome{.exit_code = 1, .line = "the loss is nan", .would_fail_again = true},
        Outcome{.exit_code = 130, .line = "interrupted", .interrupted_by = SIGINT}, Outcome{}}) {
    Scripted job{{end}};
    EXPECT_EQ(job.run(3).exit_code, end.exit_code);
    EXPECT_EQ(job.runs, 1U);
  }
}

TEST(Restart, PausesGrowToHalfAMinute) {
  Scripted job{std::vector<Outcome>(9, kKilled)};
  job.run(8);
  EXPECT_EQ(job.pauses, (std::vector<int>{1, 2, 4, 8, 16, 30, 30, 30}));
  EXPECT_EQ(pause_before(1000).count(), 30);
}

TEST(Restart, AnInterruptEndsThePauseAndTheRun) {
  Scripted job{{kKilled}, SIGTERM};
  const auto outcome = job.run(3);
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM);
  EXPECT_EQ(outcome.interrupted_by, SIGTERM);
  EXPECT_EQ(job.runs, 1U);
}

TEST(Restart, ThePauseEndsByItselfOrBySignal) {
  EXPECT_EQ(pause_unless_interrupted(std::chrono::seconds(0)), 0);
  std::thread user([] {
    struct sigaction now {};
    do {
      std::this_thread::yield();
      ::sigaction(SIGTERM, nullptr, &now);
    } while (now.sa_handler == SIG_DFL);  // sent earlier it would end the test
    ::kill(::getpid(), SIGTERM);
  });
  EXPECT_EQ(pause_unless_interrupted(std::chrono::hours(1)), SIGTERM);
  user.join();
}

}  // namespace
}  // namespace tutti::lab
