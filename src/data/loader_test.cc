#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/idx_images.h"
#include "data/sampler.h"

namespace tutti::data {
namespace {

using namespace fixture;

// A sample's one pixel and its label are its index.
class Indices : public Samples {
 public:
  explicit Indices(std::size_t size) : size_(size) {}
  std::size_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void decode(std::span<const std::uint32_t> indices,
              std::span<const std::span<std::byte>> into) const override {
    before_fill();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      as_numbers<float>(into[0])[i] = static_cast<float>(indices[i]);
      as_numbers<std::int64_t>(into[1])[i] = indices[i];
    }
    after_fill();
  }
  std::function<void()> before_fill = [] {};
  std::function<void()> after_fill = [] {};

 private:
  std::size_t size_;
  std::vector<Field> fields_ = image_fields({1, 1, 1}, 10);
};

std::span<const float> pixels_of(const Batch& batch) {
  return as_numbers<float>(batch.fields[0]);
}
std::span<const std::int64_t> labels_of(const Batch& batch) {
  return as_numbers<std::int64_t>(batch.fields[1]);
}

class SmallImages : public ::testing::Test {
 protected:
  SmallImages() : set_(open()) {}
  IdxImages open() const {
    return IdxImages::open(write(scratch_.path() / "images", images_idx(23)),
                           write(scratch_.path() / "labels", labels_idx(23)), 10);
  }
  ImageSamples samples() const {
    return {std::make_unique<const IdxImages>(open()), {table_}, image_fields({1, 3, 2}, 10)};
  }
  ScratchFolder scratch_;
  IdxImages set_;
  PixelTable table_ = normalising_table(0.5F, 0.25F);
};

TEST_F(SmallImages, DecodeNormalisesPixels) {
  std::vector<float> pixels(6);
  std::vector<std::int64_t> labels(1);
  const std::vector<std::uint32_t> indices = {21};
  const std::span<std::byte> into[] = {std::as_writable_bytes(std::span(pixels)),
                                       std::as_writable_bytes(std::span(labels))};
  samples().decode(indices, into);
  EXPECT_FLOAT_EQ(pixels[5], (152.0F / 255 - 0.5F) / 0.25F);
  EXPECT_EQ(labels[0], 1);
}

TEST_F(SmallImages, BatchesHoldTheSamplesOfTheOrder) {
  const LoaderPlan plan{
      .seed = 3, .batch = 4, .parts = 2, .first_part = 1, .last_part = 2, .first_step = 0, .end_step = 7};
  const ImageSamples images = samples();
  Loader loader(images, plan);
  for (std::uint64_t step = 0; step < 7; ++step) {
    ASSERT_TRUE(loader.has_next());
    const Batch batch = loader.next();
    const auto order = epoch_order(3, step / 3, 23);
    const Share share = share_of_step(23, 4, 2, 1, step % 3);
    EXPECT_EQ(batch.step, step);
    EXPECT_EQ(batch.epoch, step / 3);
    EXPECT_EQ(batch.global_count, step % 3 == 2 ? 7u : 8u);
    ASSERT_EQ(batch.count, share.count);
    ASSERT_EQ(labels_of(batch).size(), share.count);
    ASSERT_EQ(pixels_of(batch).size(), share.count * 6);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.fields[0].data()) % 64, 0u);
    for (std::size_t i = 0; i < share.count; ++i) {
      const std::size_t sample = order[share.first + i];
      EXPECT_EQ(labels_of(batch)[i], set_.label(sample));
      EXPECT_EQ(pixels_of(batch)[i * 6 + 2], table_[set_.pixels(sample)[2]]);
    }
  }
  EXPECT_FALSE(loader.has_next());
}

TEST(Loader, AllWorkersTogetherSeeEverySampleOnceAnEpoch) {
  for (const std::size_t workers : {1, 2, 5}) {
    std::map<std::int64_t, int> seen;
    const std::size_t steps = steps_per_epoch(101, 4, workers);
    for (std::size_t rank = 0; rank < workers; ++rank) {
      const Indices samples(101);
      Loader loader(samples, {.seed = 1,
                              .batch = 4,
                              .parts = workers,
                              .first_part = rank,
                              .last_part = rank + 1,
                              .first_step = 0,
                              .end_step = 2 * steps});
      while (loader.has_next()) {
        for (const std::int64_t label : labels_of(loader.next())) ++seen[label];
      }
    }
    EXPECT_EQ(seen.size(), 101u);
    for (const auto& [sample, times] : seen) EXPECT_EQ(times, 2) << sample;
  }
}

TEST(Loader, ResumedAtAnyStepItGivesTheSameBatches) {
  const auto batches = [](std::uint64_t first) {
    const Indices samples(50);
    Loader loader(samples, {.seed = 9, .batch = 8, .first_step = first, .end_step = 20});
    std::map<std::uint64_t, std::vector<float>> all;
    while (loader.has_next()) {
      const Batch batch = loader.next();
      all[batch.step] = {pixels_of(batch).begin(), pixels_of(batch).end()};
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
  const Indices samples(9);
  Loader loader(
      samples,
      {.seed = 0, .batch = 2, .parts = 4, .first_part = 0, .last_part = 1, .first_step = 1, .end_step = 2});
  const Batch batch = loader.next();
  EXPECT_EQ(batch.count, 0u);
  EXPECT_EQ(batch.global_count, 1u);
}

TEST(Loader, TheTwoBatchesInHandAreNotOverwrittenWhileTheThreadReadsAhead) {
  std::atomic<int> fills{0};
  Indices samples(1000);
  samples.after_fill = [&] {
    ++fills;
    fills.notify_all();
  };
  Loader loader(samples, {.seed = 4, .batch = 10, .first_step = 0, .end_step = 100});
  const Batch batch = loader.next();
  const Batch ahead = loader.next();
  const std::vector<float> before(pixels_of(batch).begin(), pixels_of(batch).end());
  const std::vector<float> before_ahead(pixels_of(ahead).begin(), pixels_of(ahead).end());
  for (int seen = fills; seen < 4; seen = fills) fills.wait(seen);
  EXPECT_EQ(std::vector<float>(pixels_of(batch).begin(), pixels_of(batch).end()), before);
  EXPECT_EQ(std::vector<float>(pixels_of(ahead).begin(), pixels_of(ahead).end()), before_ahead);
  EXPECT_EQ(fills, 4) << "no more than two batches ahead";
}

TEST(Loader, RethrowsWhatTheThreadThrewAfterTheGoodBatches) {
  int calls = 0;
  Indices samples(100);
  samples.before_fill = [&] {
    if (++calls == 3) throw DataError("disk on fire");
  };
  Loader loader(samples, {.batch = 1, .first_step = 0, .end_step = 10});
  loader.next();
  loader.next();
  EXPECT_EQ(error_of<DataError>([&] { loader.next(); }), "disk on fire");
  EXPECT_EQ(error_of<DataError>([&] { loader.next(); }), "disk on fire");
}

TEST(Loader, CanBeDestroyedAtAnyMoment) {
  for (int taken = 0; taken < 5; ++taken) {
    const Indices samples(1000);
    Loader loader(samples, {.batch = 10, .first_step = 0, .end_step = 1'000'000});
    for (int i = 0; i < taken; ++i) loader.next();
  }
}

TEST(Loader, SeveralPartsAreWhatTheirOwnersWouldHaveHad) {
  const Indices samples(101);
  const LoaderPlan all{.seed = 3, .batch = 4, .parts = 6, .first_part = 0, .last_part = 6, .end_step = 10};
  LoaderPlan some = all;
  some.first_part = 2;
  some.last_part = 5;
  Loader whole(samples, all);
  Loader loader(samples, some);
  while (loader.has_next()) {
    const Batch everything = whole.next();
    const Batch batch = loader.next();
    ASSERT_EQ(everything.parts.size(), 6U);
    ASSERT_EQ(batch.parts, (std::vector(everything.parts.begin() + 2, everything.parts.begin() + 5)));
    const std::size_t before = everything.parts[0] + everything.parts[1];
    const auto mine = everything.samples.subspan(before, batch.count);
    EXPECT_TRUE(std::ranges::equal(batch.samples, mine));
    EXPECT_EQ(batch.global_count, everything.count);
  }
}

}  // namespace
}  // namespace tutti::data
