#include "base/in_turns.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace {

TEST(InTurns, OneRunsAtATimeAndAllHaveWhatTheyMetFor) {
  constexpr std::size_t kTasks = 5;
  InTurns turns(kTasks);
  for (int round = 0; round < 20; ++round) {
    std::string order;
    std::size_t brought = 0;
    std::size_t total = 0;
    turns.run([&](std::size_t i) {
      EXPECT_EQ(turns.current(), i);
      for (int meeting = 0; meeting < 2; ++meeting) {
        order += static_cast<char>('a' + i);
        brought += i + 1;
        turns.meet([&] { total = std::exchange(brought, 0); });
        EXPECT_EQ(total, 15U);
      }
      order += static_cast<char>('A' + i);
    });
    EXPECT_EQ(order, "abcdeabcdeABCDE");
  }
}

TEST(InTurns, TasksThatDoNotMeetRunOneAfterAnother) {
  std::vector<std::size_t> order;
  InTurns(3).run([&](std::size_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2}));
}

TEST(InTurns, ExceptionOfOneEndsAllAndComesOut) {
  InTurns turns(4);
  for (const std::size_t culprit : {0U, 2U, 3U}) {
    for (const int meeting : {0, 1}) {
      int went_on = 0;
      const auto task = [&](std::size_t i) {
        for (int m = 0; m < 2; ++m) {
          if (i == culprit && m == meeting) throw std::runtime_error("task failed");
          turns.meet([] {});
        }
        ++went_on;
      };
      EXPECT_THROW(turns.run(task), std::runtime_error);
      EXPECT_EQ(went_on, 0);
    }
  }
  int ended = 0;
  turns.run([&](std::size_t) {
    turns.meet([] {});
    ++ended;
  });
  EXPECT_EQ(ended, 4) << "of no consequence for the next";
}

TEST(InTurns, WhatTheLastDoesForAllMayFail) {
  InTurns turns(3);
  EXPECT_THROW(turns.run([&](std::size_t) { turns.meet([] { throw std::runtime_error("no sum"); }); }),
               std::runtime_error);
}

TEST(InTurns, WaitingForATaskThatHasEndedIsFound) {
  InTurns turns(3);
  EXPECT_THROW(turns.run([&](std::size_t i) {
    if (i != 0) turns.meet([] {});
  }),
               std::logic_error);
}

}  // namespace
}  // namespace tutti
