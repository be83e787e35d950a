// What training does to images after they are decoded, another way each time that one is seen.
//
// What is drawn depends on the seed, the epoch and the sample's number alone: not on who decodes it, nor on
// the number of workers. Where nothing of the image is left, pixels are 0, which is the mean of all images.
#pragma once

#include <cstdint>
#include <span>

#include "data/image_set.h"
#include "data/samples.h"

namespace tutti::data {

struct AugmentOptions {
  bool crop = false;  // moved by up to kCropPadding pixels each way
  bool flip = false;  // left and right, every second time
  int cutout = 0;     // the side of a square that is blanked, its centre anywhere; 0: none

  bool any() const { return crop || flip || cutout > 0; }
};

inline constexpr int kCropPadding = 4;

// Has no state that changes, so any number of threads may share one.
class Augment {
 public:
  // Throws ConfigError if the fields are no image's.
  Augment(const AugmentOptions& options, const std::vector<Field>& fields, std::uint64_t seed);

  // Changes the decoded samples at `indices` in place; `into` is as for Samples::decode.
  void operator()(std::uint64_t epoch, std::span<const std::uint32_t> indices,
                  std::span<const std::span<std::byte>> into) const;

 private:
  struct Draw;
  Draw draw(std::uint64_t epoch, std::uint32_t sample) const;
  void move(const Draw& draw, std::span<float> plane, std::span<float> scratch) const;
  void blank(const Draw& draw, std::span<float> plane) const;

  AugmentOptions options_;
  ImageShape shape_;
  std::uint64_t seed_;
};

}  // namespace tutti::data
