#include "data/augment.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "data/idx_fixture.h"
#include "data/image_samples.h"
#include "data/loader.h"

namespace tutti::data {
namespace {

using fixture::error_of;

constexpr ImageShape kShape{2, 10, 12};
constexpr std::size_t kSamples = 60;

// Pixel p of sample i is 1 + i + p, so no pixel is 0 until one is blanked.
class Ramps : public Samples {
 public:
  std::size_t size() const override { return kSamples; }
  const std::vector<Field>& fields() const override { return fields_; }
  void decode(std::span<const std::uint32_t> indices,
              std::span<const std::span<std::byte>> into) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto image = as_numbers<float>(into[0]).subspan(i * kShape.pixels(), kShape.pixels());
      std::iota(image.begin(), image.end(), static_cast<float>(1 + indices[i]));
      as_numbers<std::int64_t>(into[1])[i] = indices[i];
    }
  }

 private:
  std::vector<Field> fields_ = image_fields(kShape, 100);
};

using Image = std::vector<float>;

// What every sample becomes in steps [first, end), by (epoch, sample).
std::map<std::pair<std::uint64_t, std::int64_t>, Image> seen(const AugmentOptions& options,
                                                             std::size_t workers, std::uint64_t epochs = 2,
                                                             std::uint64_t seed = 5) {
  const Ramps samples;
  std::map<std::pair<std::uint64_t, std::int64_t>, Image> all;
  const std::size_t batch = 12 / workers;
  for (std::size_t rank = 0; rank < workers; ++rank) {
    Loader loader(samples, {.seed = seed,
                            .batch = batch,
                            .parts = workers,
                            .first_part = rank,
                            .last_part = rank + 1,
                            .first_step = 0,
                            .end_step = epochs * kSamples / 12,
                            .augment = options});
    while (loader.has_next()) {
      const Batch b = loader.next();
      for (std::size_t i = 0; i < b.count; ++i) {
        const auto image = as_numbers<float>(b.fields[0]).subspan(i * kShape.pixels(), kShape.pixels());
        all[{b.epoch, as_numbers<std::int64_t>(b.fields[1])[i]}] = {image.begin(), image.end()};
      }
    }
  }
  return all;
}

Image original(std::int64_t sample) {
  Image image(kShape.pixels());
  std::iota(image.begin(), image.end(), static_cast<float>(1 + sample));
  return image;
}

// The image moved and flipped, a pixel at a time.
Image moved(const Image& in, int down, int right, bool flip) {
  Image out(in.size(), 0);
  const auto at = [](std::size_t c, int y, int x) {
    return c * kShape.plane() + static_cast<std::size_t>(y) * kShape.cols + static_cast<std::size_t>(x);
  };
  for (std::size_t c = 0; c < kShape.channels; ++c) {
    for (int y = 0; y < 10; ++y) {
      for (int x = 0; x < 12; ++x) {
        const int to_y = y + down;
        const int to_x = x + right;
        if (to_y < 0 || to_y >= 10 || to_x < 0 || to_x >= 12) continue;
        out[at(c, to_y, flip ? 11 - to_x : to_x)] = in[at(c, y, x)];
      }
    }
  }
  return out;
}

TEST(Augment, DoesNotDependOnTheNumberOfWorkers) {
  const AugmentOptions all{.crop = true, .flip = true, .cutout = 5};
  const auto alone = seen(all, 1);
  EXPECT_EQ(alone.size(), 2 * kSamples);
  EXPECT_EQ(seen(all, 2), alone);
  EXPECT_EQ(seen(all, 4), alone);
}

TEST(Augment, DrawsAnewEachEpochAndForEachSeed) {
  const AugmentOptions crop{.crop = true};
  const auto images = seen(crop, 1);
  const auto others = seen(crop, 1, 1, 6);
  std::size_t same_next_epoch = 0;
  std::size_t same_other_seed = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kSamples); ++i) {
    same_next_epoch += images.at({0, i}) == images.at({1, i}) ? 1 : 0;
    same_other_seed += images.at({0, i}) == others.at({0, i}) ? 1 : 0;
  }
  EXPECT_LT(same_next_epoch, 8u) << "one in 81 by chance";
  EXPECT_LT(same_other_seed, 8u);
}

TEST(Augment, CropMovesByUpToFourPixelsEachWay) {
  std::set<std::pair<int, int>> moves;
  for (const auto& [key, image] : seen({.crop = true}, 1, 10)) {
    int matches = 0;
    for (int down = -4; down <= 4; ++down) {
      for (int right = -4; right <= 4; ++right) {
        if (image != moved(original(key.second), down, right, false)) continue;
        moves.insert({down, right});
        ++matches;
      }
    }
    EXPECT_EQ(matches, 1) << key.second;
  }
  EXPECT_GT(moves.size(), 70u) << "of 81";
}

TEST(Augment, FlipTurnsHalfOfThem) {
  std::size_t flipped = 0;
  const auto images = seen({.flip = true}, 1, 10);
  for (const auto& [key, image] : images) {
    const Image mirror = moved(original(key.second), 0, 0, true);
    EXPECT_TRUE(image == mirror || image == original(key.second)) << key.second;
    flipped += image == mirror ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(flipped), static_cast<double>(images.size()) / 2, 60);
}

TEST(Augment, CutoutBlanksOneSquareInEveryChannel) {
  std::set<std::size_t> areas;
  for (const auto& [key, image] : seen({.cutout = 4}, 1, 10)) {
    const Image before = original(key.second);
    std::set<std::size_t> rows;
    std::set<std::size_t> cols;
    std::size_t blank = 0;
    for (std::size_t p = 0; p < kShape.plane(); ++p) {
      const bool gone = image[p] == 0;
      EXPECT_EQ(image[kShape.plane() + p] == 0, gone);
      if (!gone) {
        EXPECT_EQ(image[p], before[p]);
        continue;
      }
      rows.insert(p / kShape.cols);
      cols.insert(p % kShape.cols);
      ++blank;
    }
    EXPECT_EQ(blank, rows.size() * cols.size());
    EXPECT_EQ(*rows.rbegin() - *rows.begin() + 1, rows.size());
    areas.insert(blank);
  }
  EXPECT_EQ(*areas.rbegin(), 16u);
  EXPECT_EQ(*areas.begin(), 4u) << "in a corner";
}

TEST(Augment, OneOptionDoesNotChangeAnother) {
  const auto both = seen({.crop = true, .flip = true}, 1);
  const auto crops = seen({.crop = true}, 1);
  const auto flips = seen({.flip = true}, 1);
  for (const auto& [key, image] : both) {
    const bool flip = flips.at(key) != original(key.second);
    EXPECT_EQ(image, flip ? moved(crops.at(key), 0, 0, true) : crops.at(key));
  }
}

TEST(Augment, RefusesWhatIsNoImage) {
  const std::vector<Field> fields = {{"features", DType::f32, {5}}, {"label", DType::i64, {}, 3}};
  EXPECT_EQ(error_of<ConfigError>([&] { Augment({.flip = true}, fields, 1); }),
            "only images can be cropped, flipped or cut out, not features 5, label below 3");
}

}  // namespace
}  // namespace tutti::data
