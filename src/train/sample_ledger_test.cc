#include "train/sample_ledger.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data/sampler.h"

namespace tutti::train {
namespace {

constexpr std::size_t kSamples = 103;

// What so many workers count in these steps of the run, each in its own part of every step.
std::vector<EpochSums> counted(std::size_t workers, std::size_t batch, std::size_t first_step,
                               std::size_t end_step, const std::vector<EpochSums>& before = {}) {
  const auto steps_per_epoch = data::steps_per_epoch(kSamples, batch, workers);
  std::vector<std::vector<EpochSums>> all;
  for (std::size_t rank = 0; rank < workers; ++rank) {
    SampleLedger ledger(rank == 0 ? before : std::vector<EpochSums>());
    for (std::size_t step = first_step; step < end_step; ++step) {
      const std::size_t epoch = step / steps_per_epoch;
      const auto order = data::epoch_order(7, epoch, kSamples);
      const auto share = data::share_of_step(kSamples, batch, workers, rank, step % steps_per_epoch);
      ledger.add(epoch, std::span(order).subspan(share.first, share.count));
    }
    all.push_back(ledger.epochs());
  }
  return joined(all);
}

TEST(SampleLedger, IsTheSameAtEveryNumberOfWorkers) {
  const auto alone = counted(1, 12, 0, 18);  // two epochs of nine steps
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_EQ(alone[0].samples, kSamples);
  EXPECT_EQ(counted(2, 6, 0, 18), alone);
  EXPECT_EQ(counted(3, 4, 0, 18), alone);
  EXPECT_EQ(counted(12, 1, 0, 18), alone);
  // Each sample once, whatever the order.
  const auto both = shown(alone, false);
  EXPECT_EQ(both[0].digest, both[1].digest);
  EXPECT_EQ(both[0].digest.size(), 32U);
  EXPECT_EQ(both[1].epoch, 2);
}

TEST(SampleLedger, ShowsASampleThatWasLeftOutRepeatedOrExchanged) {
  std::vector<std::uint32_t> samples(kSamples);
  std::iota(samples.begin(), samples.end(), 0);
  const auto digest_of = [](const std::vector<std::uint32_t>& used) {
    SampleLedger ledger;
    ledger.add(0, used);
    return shown(ledger.epochs(), false)[0].digest;
  };
  const auto whole = digest_of(samples);
  auto missing = samples;
  missing.pop_back();
  EXPECT_NE(digest_of(missing), whole);
  auto repeated = samples;
  repeated[3] = 4;
  EXPECT_NE(digest_of(repeated), whole);
  // Numbers with the same sum.
  auto exchanged = samples;
  exchanged[10] = 9;
  exchanged[20] = 21;
  EXPECT_NE(digest_of(exchanged), whole);
  std::ranges::reverse(samples);
  EXPECT_EQ(digest_of(samples), whole);
}

TEST(SampleLedger, GoesOnInTheMiddleOfAnEpochFromWhatACheckpointKeeps) {
  const auto undisturbed = counted(2, 6, 0, 14);
  const auto kept = counted(2, 6, 0, 5);
  EXPECT_EQ(counted(2, 6, 5, 14, counted_before(kept, 5, 9)), undisturbed);
  EXPECT_EQ(nlohmann::json(kept).get<std::vector<EpochSums>>(), kept);
}

TEST(SampleLedger, SaysWhereItDoesNotKnowTheBeginningOfAnEpoch) {
  const auto rest = shown(counted(2, 6, 5, 14, counted_before(std::nullopt, 5, 9)), false);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_TRUE(rest[0].partial);
  EXPECT_FALSE(rest[1].partial);
  EXPECT_LT(rest[0].samples, kSamples);
  EXPECT_TRUE(counted_before(std::nullopt, 18, 9).empty());
  for (const auto& epoch : shown(counted(2, 6, 0, 9), true)) EXPECT_TRUE(epoch.partial);
}

}  // namespace
}  // namespace tutti::train
