#include "ps/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace tutti::ps {
namespace {

using Gradient = Decision::Gradient;

std::vector<int> answered(const Decision& r) {
  std::vector<int> workers;
  for (const Answer& a : r.answers) workers.push_back(a.worker);
  return workers;
}

TEST(SyncLedger, NobodyGoesOnBeforeTheLastGradientOfTheStep) {
  Ledger ledger({.workers = 3});
  EXPECT_TRUE(ledger.on_push({2, 0, 1, 0}).answers.empty());
  EXPECT_EQ(ledger.awaited(), 0);
  EXPECT_TRUE(ledger.on_push({0, 0, 1, 0}).answers.empty());
  EXPECT_EQ(ledger.awaited(), 1);
  EXPECT_EQ(ledger.version(), 0);
  const Decision last = ledger.on_push({1, 0, 1, 0});
  EXPECT_EQ(last.update_from, (std::vector<int>{0, 1, 2}));  // in the order of ranks, not of arrival
  EXPECT_EQ(answered(last), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(ledger.version(), 1);
  EXPECT_EQ(ledger.awaited(), -1);
}

TEST(SyncLedger, PushThatComesTwiceOrFromBeforeCountsOnce) {
  Ledger ledger({.workers = 2});
  EXPECT_EQ(ledger.on_push({0, 0, 5, 0}).gradient, Gradient::keep);
  EXPECT_TRUE(ledger.on_push({0, 0, 5, 0}).repeated);
  EXPECT_TRUE(ledger.on_push({0, 0, 4, 0}).repeated);
  EXPECT_EQ(ledger.on_push({1, 0, 1, 0}).update_from.size(), 2U);
  EXPECT_TRUE(ledger.on_push({1, 0, 1, 0}).repeated);
  EXPECT_EQ(ledger.version(), 1);
}

TEST(SyncLedger, NewIncarnationStartsItsSequenceAnewAndTheOldOneIsNotHeard) {
  Ledger ledger({.consistency = Consistency::async, .workers = 1});
  EXPECT_EQ(ledger.on_push({0, 0, 9, 0}).gradient, Gradient::keep);
  EXPECT_EQ(ledger.on_push({0, 1, 1, 1}).gradient, Gradient::keep);
  EXPECT_TRUE(ledger.on_push({0, 0, 10, 1}).repeated);
  EXPECT_EQ(ledger.version(), 2);
}

TEST(SyncLedger, BackupWorkersLetTheFirstMakeTheStepAndDropTheLast) {
  Ledger ledger({.workers = 3, .backup = 1});
  ledger.on_push({0, 0, 1, 0});
  EXPECT_EQ(ledger.on_push({2, 0, 1, 0}).update_from, (std::vector<int>{0, 2}));
  const Decision late = ledger.on_push({1, 0, 1, 0});
  EXPECT_EQ(late.gradient, Gradient::drop);
  EXPECT_FALSE(late.repeated);
  EXPECT_EQ(answered(late), std::vector<int>{1});  // with the new version, to catch up
  EXPECT_EQ(ledger.on_push({1, 0, 2, 1}).gradient, Gradient::keep);
}

TEST(SyncLedger, FirstToLeaveEndsTheRunAndNobodyWaits) {
  Ledger ledger({.workers = 3, .backup = 1});
  ledger.on_push({0, 0, 1, 0});
  const Decision leaving = ledger.on_leave(1);
  EXPECT_EQ(answered(leaving), std::vector<int>{0});
  EXPECT_TRUE(leaving.update_from.empty());
  const Decision late = ledger.on_push({2, 0, 1, 0});
  EXPECT_EQ(late.gradient, Gradient::drop);
  EXPECT_EQ(answered(late), std::vector<int>{2});
  EXPECT_EQ(ledger.version(), 0);
}

TEST(SyncLedger, GradientFromTheFutureIsAProtocolError) {
  Ledger ledger({.workers = 2}, 10);
  EXPECT_THROW(ledger.on_push({0, 0, 1, 11}), ProtocolError);
}

TEST(AsyncLedger, EveryGradientCountsAtOnceAndItsStalenessIsKnown) {
  Ledger ledger({.consistency = Consistency::async, .workers = 3});
  EXPECT_EQ(answered(ledger.on_push({0, 0, 1, 0})), std::vector<int>{0});
  EXPECT_EQ(ledger.on_push({0, 0, 2, 1}).staleness, 0);
  EXPECT_EQ(ledger.on_push({1, 0, 1, 0}).staleness, 2);
  EXPECT_EQ(ledger.version(), 3);
}

// Random speeds: whoever was answered may push next. The bound holds at every answer, everyone gets on, and
// nobody is held back without need.
TEST(SspLedger, LeadNeverExceedsTheBoundAndNobodyStarves) {
  for (const int bound : {0, 1, 3}) {
    constexpr int kWorkers = 5;
    Ledger ledger({.consistency = Consistency::ssp, .workers = kWorkers, .staleness = bound});
    SplitMix64 random(static_cast<std::uint64_t>(bound) + 1);
    std::vector<bool> may(kWorkers, true);
    std::vector<std::int64_t> pushes(kWorkers);
    for (int i = 0; i < 20'000; ++i) {
      // The higher the rank, the faster.
      const int w = static_cast<int>(
          std::max({random.below(kWorkers), random.below(kWorkers), random.below(kWorkers)}));
      if (!may[w]) continue;
      may[w] = false;
      ++pushes[w];
      const auto slowest = *std::ranges::min_element(pushes);
      for (const Answer& a : ledger.on_push({w, 0, static_cast<std::uint64_t>(pushes[w]), 0}).answers) {
        EXPECT_LE(a.lead, bound);
        EXPECT_EQ(a.lead, pushes[a.worker] - slowest);
        may[a.worker] = true;
      }
      for (int v = 0; v < kWorkers; ++v) EXPECT_EQ(may[v], pushes[v] - slowest <= bound) << v;
    }
    EXPECT_GT(*std::ranges::min_element(pushes), 50);
  }
}

TEST(SspLedger, LeavingOfTheSlowestLetsTheOthersGo) {
  Ledger ledger({.consistency = Consistency::ssp, .workers = 2, .staleness = 0});
  EXPECT_TRUE(ledger.on_push({0, 0, 1, 0}).answers.empty());
  EXPECT_EQ(ledger.awaited(), 1);
  EXPECT_EQ(answered(ledger.on_leave(1)), std::vector<int>{0});
}

TEST(DroppedWorker, LetsThoseThatWaitedForItGoOn) {
  Ledger ledger({.consistency = Consistency::ssp, .workers = 3, .staleness = 1});
  std::uint64_t sequence = 0;
  for (int push = 0; push < 2; ++push) {
    for (const int w : {0, 1}) ledger.on_push({w, 0, ++sequence, ledger.version()});
  }
  EXPECT_EQ(ledger.awaited(), 2) << "two pushes ahead of it is one too many";
  EXPECT_EQ(answered(ledger.on_drop(2)), (std::vector<int>{0, 1}));
  EXPECT_EQ(ledger.awaited(), -1);
  EXPECT_EQ(ledger.version(), 4) << "its death makes no version";
}

TEST(DroppedWorker, IsNotWaitedForByBackupRoundsAndItsGradientDoesNotCount) {
  Ledger ledger({.workers = 4, .backup = 1});
  ledger.on_push({0, 0, 1, 0});
  ledger.on_push({3, 0, 1, 0});
  EXPECT_TRUE(ledger.on_drop(3).update_from.empty()) << "three of the three that are left are needed";
  ledger.on_push({1, 0, 1, 0});
  const Decision last = ledger.on_push({2, 0, 1, 0});
  EXPECT_EQ(last.update_from, (std::vector<int>{0, 1, 2}));
  // The rounds after it go on, with fewer than the policy asks for once that many are gone.
  ledger.on_drop(2);
  ledger.on_push({0, 0, 2, 1});
  EXPECT_EQ(ledger.on_push({1, 0, 2, 1}).update_from, (std::vector<int>{0, 1}));
  EXPECT_EQ(ledger.version(), 2);
}

TEST(DroppedWorker, MakesTheRoundThatOnlyItWasMissingFrom) {
  Ledger ledger({.workers = 2, .backup = 0});
  ledger.on_push({0, 0, 1, 0});
  const Decision decision = ledger.on_drop(1);
  EXPECT_EQ(decision.update_from, std::vector<int>{0});
  EXPECT_EQ(answered(decision), std::vector<int>{0});
}

}  // namespace
}  // namespace tutti::ps
