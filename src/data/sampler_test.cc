#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace tutti::data {
namespace {

TEST(Sampler, OrderIsAPermutation) {
  for (const std::size_t samples : {0, 1, 2, 10, 1000}) {
    std::vector<std::uint32_t> order = epoch_order(1, 2, samples);
    std::ranges::sort(order);
    std::vector<std::uint32_t> all(samples);
    std::iota(all.begin(), all.end(), 0U);
    EXPECT_EQ(order, all);
  }
}

TEST(Sampler, OrderIsTheSameOnEveryMachine) {
  EXPECT_EQ(epoch_order(42, 0, 10), (std::vector<std::uint32_t>{5, 1, 9, 6, 7, 2, 4, 0, 8, 3}));
  EXPECT_EQ(epoch_order(42, 1, 10), (std::vector<std::uint32_t>{8, 9, 1, 7, 6, 4, 3, 2, 0, 5}));
  const auto large = epoch_order(7, 3, 60'000);
  EXPECT_EQ((std::vector<std::uint32_t>{large.begin(), large.begin() + 4}),
            (std::vector<std::uint32_t>{8319, 42765, 53490, 29753}));
}

TEST(Sampler, SeedAndEpochChangeTheOrder) {
  const auto order = epoch_order(1, 1, 100);
  EXPECT_NE(order, epoch_order(1, 2, 100));
  EXPECT_NE(order, epoch_order(2, 1, 100));
  EXPECT_NE(epoch_order(1, 2, 100), epoch_order(2, 1, 100));
}

TEST(Sampler, EverySampleOnceAnEpochForAnyNumberOfWorkers) {
  for (std::size_t workers = 1; workers <= 9; ++workers) {
    for (const std::size_t batch : {1, 3, 8}) {
      for (std::size_t samples = 1; samples < 200; samples += 7) {
        std::size_t next = 0;
        const std::size_t steps = steps_per_epoch(samples, batch, workers);
        for (std::size_t step = 0; step < steps; ++step) {
          std::size_t largest = 0;
          std::size_t smallest = samples;
          for (std::size_t rank = 0; rank < workers; ++rank) {
            const Share share = share_of_step(samples, batch, workers, rank, step);
            ASSERT_EQ(share.first, next);
            ASSERT_LE(share.count, batch);
            next += share.count;
            largest = std::max(largest, share.count);
            smallest = std::min(smallest, share.count);
          }
          ASSERT_LE(largest - smallest, 1u);
        }
        ASSERT_EQ(next, samples) << workers << " workers, batch " << batch;
      }
    }
  }
}

TEST(Sampler, AGlobalStepHasTheSameSamplesForAnyNumberOfWorkers) {
  constexpr std::size_t kGlobal = 24;
  constexpr std::size_t kSamples = 250;
  const auto order = epoch_order(5, 0, kSamples);
  for (std::size_t step = 0; step < steps_per_epoch(kSamples, kGlobal, 1); ++step) {
    std::set<std::uint32_t> alone;
    for (const std::size_t workers : {1, 2, 3, 4, 6, 8, 12, 24}) {
      std::set<std::uint32_t> together;
      for (std::size_t rank = 0; rank < workers; ++rank) {
        const Share share = share_of_step(kSamples, kGlobal / workers, workers, rank, step);
        together.insert(order.begin() + share.first, order.begin() + share.first + share.count);
      }
      if (workers == 1) alone = together;
      EXPECT_EQ(together, alone) << workers;
    }
  }
}

TEST(Sampler, CutsNest) {
  for (std::size_t count = 0; count < 50; ++count) {
    for (const std::size_t workers : {1, 2, 3, 4}) {
      for (std::size_t rank = 0; rank < workers; ++rank) {
        const Share whole = share_of(count, workers, rank);
        const Share first = share_of(count, workers * 4, rank * 4);
        const Share last = share_of(count, workers * 4, rank * 4 + 3);
        EXPECT_EQ(whole.first, first.first);
        EXPECT_EQ(whole.first + whole.count, last.first + last.count);
      }
    }
  }
}

}  // namespace
}  // namespace tutti::data
