#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/sampler.h"

namespace tutti::data {
namespace {

using namespace fixture;

// A sample's one pixel and its label are its index.
void fill_indices(std::span<const std::uint32_t> indices, std::span<float> pixels,
                  std::span<std::int64_t> labels) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    pixels[i] = static_cast<float>(indices[i]);
    labels[i] = indices[i];
  }
}

class SmallImages : public ::testing::Test {
 protected:
  SmallImages()
      : set_(ImageSet::open(write(scratch_.path() / "images", images_idx(23)),
                            write(scratch_.path() / "labels", labels_idx(23)), 10)) {}
  ScratchFolder scratch_;
  ImageSet set_;
  PixelTable table_ = normalising_table(0.5F, 0.25F);
};

TEST_F(SmallImages, DecodeNormalisesPixels) {
  std::vector<float> pixels(6);
  std::vector<std::int64_t> labels(1);
  const std::vector<std::uint32_t> indices = {21};
  decode(set_, indices, table_, pixels, labels);
  EXPECT_FLOAT_EQ(pixels[5], (152.0F / 255 - 0.5F) / 0.25F);
  EXPECT_EQ(labels[0], 1);
}

TEST_F(SmallImages, RangesOfAllRanksCoverTheSetInOrder) {
  std::vector<std::int64_t> all;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Share share = share_of(set_.size(), 3, rank);
    std::vector<float> pixels(share.count * 6);
    std::vector<std::int64_t> labels(share.count);
    decode_range(set_, share.first, share.count, table_, pixels, labels);
    EXPECT_FLOAT_EQ(pixels[0], table_[share.first * 7]);
    all.insert(all.end(), labels.begin(), labels.end());
  }
  ASSERT_EQ(all.size(), 23u);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::int64_t>(i % 10));
}

TEST_F(SmallImages, BatchesHoldTheSamplesOfTheOrder) {
  const LoaderPlan plan{.seed = 3, .batch = 4, .workers = 2, .rank = 1, .first_step = 0, .end_step = 7};
  Loader loader(set_, table_, plan);
  for (std::uint64_t step = 0; step < 7; ++step) {
    ASSERT_TRUE(loader.has_next());
    const Batch batch = loader.next();
    const auto order = epoch_order(3, step / 3, 23);
    const Share share = share_of_step(23, 4, 2, 1, step % 3);
    EXPECT_EQ(batch.step, step);
    EXPECT_EQ(batch.epoch, step / 3);
    EXPECT_EQ(batch.global_count, step % 3 == 2 ? 7u : 8u);
    ASSERT_EQ(batch.count, share.count);
    ASSERT_EQ(batch.labels.size(), share.count);
    ASSERT_EQ(batch.pixels.size(), share.count * 6);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.pixels.data()) % 64, 0u);
    for (std::size_t i = 0; i < share.count; ++i) {
      const std::size_t sample = order[share.first + i];
      EXPECT_EQ(batch.labels[i], set_.label(sample));
      EXPECT_EQ(batch.pixels[i * 6 + 2], table_[set_.pixels(sample)[2]]);
    }
  }
  EXPECT_FALSE(loader.has_next());
}

TEST(Loader, AllWorkersTogetherSeeEverySampleOnceAnEpoch) {
  for (const std::size_t workers : {1, 2, 5}) {
    std::map<std::int64_t, int> seen;
    const std::size_t steps = steps_per_epoch(101, 4, workers);
    for (std::size_t rank = 0; rank < workers; ++rank) {
      Loader loader(
          101, 1, fill_indices,
          {.seed = 1, .batch = 4, .workers = workers, .rank = rank, .first_step = 0, .end_step = 2 * steps});
      while (loader.has_next()) {
        for (const std::int64_t label : loader.next().labels) ++seen[label];
      }
    }
    EXPECT_EQ(seen.size(), 101u);
    for (const auto& [sample, times] : seen) EXPECT_EQ(times, 2) << sample;
  }
}

TEST(Loader, ResumedAtAnyStepItGivesTheSameBatches) {
  const auto batches = [](std::uint64_t first) {
    Loader loader(50, 1, fill_indices, {.seed = 9, .batch = 8, .first_step = first, .end_step = 20});
    std::map<std::uint64_t, std::vector<float>> all;
    while (loader.has_next()) {
      const Batch batch = loader.next();
      all[batch.step] = {batch.pixels.begin(), batch.pixels.end()};
    }
    return all;
  };
  const auto whole = batches(0);
  EXPECT_EQ(whole.size(), 20u);
  for (const std::uint64_t first : {1, 6, 7, 13, 19}) {
    for (const auto& [step, pixels] : batches(first)) EXPECT_EQ(pixels, whole.at(step)) << step;
  }
}

TEST(Loader, AnEmptyPartIsAnEmptyBatch) {
  Loader loader(9, 1, fill_indices,
                {.seed = 0, .batch = 2, .workers = 4, .rank = 0, .first_step = 1, .end_step = 2});
  const Batch batch = loader.next();
  EXPECT_EQ(batch.count, 0u);
  EXPECT_EQ(batch.global_count, 1u);
}

TEST(Loader, TheBatchInHandIsNotOverwrittenWhileTheThreadReadsAhead) {
  std::atomic<int> fills{0};
  Loader loader(1000, 1,
                [&](auto indices, auto pixels, auto labels) {
                  fill_indices(indices, pixels, labels);
                  ++fills;
                  fills.notify_all();
                },
                {.seed = 4, .batch = 10, .first_step = 0, .end_step = 100});
  const Batch batch = loader.next();
  const std::vector<float> before(batch.pixels.begin(), batch.pixels.end());
  for (int seen = fills; seen < 3; seen = fills) fills.wait(seen);
  EXPECT_EQ(std::vector<float>(batch.pixels.begin(), batch.pixels.end()), before);
  EXPECT_EQ(fills, 3) << "no more than two batches ahead";
}

TEST(Loader, RethrowsWhatTheThreadThrewAfterTheGoodBatches) {
  int calls = 0;
  Loader loader(100, 1,
                [&](auto...) {
                  if (++calls == 3) throw DataError("disk on fire");
                },
                {.batch = 1, .first_step = 0, .end_step = 10});
  loader.next();
  loader.next();
  EXPECT_EQ(error_of<DataError>([&] { loader.next(); }), "disk on fire");
  EXPECT_EQ(error_of<DataError>([&] { loader.next(); }), "disk on fire");
}

TEST(Loader, CanBeDestroyedAtAnyMoment) {
  for (int taken = 0; taken < 5; ++taken) {
    Loader loader(1000, 1, fill_indices, {.batch = 10, .first_step = 0, .end_step = 1'000'000});
    for (int i = 0; i < taken; ++i) loader.next();
  }
}

}  // namespace
}  // namespace tutti::data
