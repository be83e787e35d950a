#include "data/augment.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "data/format.h"
#include "data/image_samples.h"

namespace tutti::data {

struct Augment::Draw {
  int down = 0;
  int right = 0;
  bool flip = false;
  int centre_row = 0;
  int centre_col = 0;
};

Augment::Augment(const AugmentOptions& options, const std::vector<Field>& fields, std::uint64_t seed)
    : options_(options), seed_(seed) {
  const bool image = !fields.empty() && fields[0].type == DType::f32 && fields[0].shape.size() == 3;
  if (!image) {
    throw ConfigError(fmt::format("only images can be cropped, flipped or cut out, not {}", text_of(fields)));
  }
  shape_ = shape_in(fields);
}

Augment::Draw Augment::draw(std::uint64_t epoch, std::uint32_t sample) const {
  // All numbers are drawn whatever is asked for, so that one option does not change what another does.
  SplitMix64 random(mix_seed({seed_, epoch, sample}));
  const auto below = [&](std::size_t bound) { return static_cast<int>(random.below(bound)); };
  Draw d;
  d.down = below(2 * kCropPadding + 1) - kCropPadding;
  d.right = below(2 * kCropPadding + 1) - kCropPadding;
  d.flip = below(2) == 1;
  d.centre_row = below(shape_.rows);
  d.centre_col = below(shape_.cols);
  if (!options_.crop) d.down = d.right = 0;
  if (!options_.flip) d.flip = false;
  return d;
}

void Augment::operator()(std::uint64_t epoch, std::span<const std::uint32_t> indices,
                         std::span<const std::span<std::byte>> into) const {
  const auto pixels = as_numbers<float>(into[0]);
  std::vector<float> scratch(shape_.plane());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Draw d = draw(epoch, indices[i]);
    for (std::size_t c = 0; c < shape_.channels; ++c) {
      const auto plane = pixels.subspan((i * shape_.channels + c) * shape_.plane(), shape_.plane());
      move(d, plane, scratch);
      blank(d, plane);
    }
  }
}

void Augment::move(const Draw& draw, std::span<float> plane, std::span<float> scratch) const {
  if (draw.down == 0 && draw.right == 0 && !draw.flip) return;
  const int rows = static_cast<int>(shape_.rows);
  const int cols = static_cast<int>(shape_.cols);
  std::ranges::copy(plane, scratch.begin());
  auto to = plane.begin();
  for (int r = 0; r < rows; ++r) {
    const int from_row = r - draw.down;
    for (int c = 0; c < cols; ++c) {
      const int from_col = (draw.flip ? cols - 1 - c : c) - draw.right;
      const bool inside = from_row >= 0 && from_row < rows && from_col >= 0 && from_col < cols;
      *to++ = inside ? scratch[static_cast<std::size_t>(from_row * cols + from_col)] : 0;
    }
  }
}

void Augment::blank(const Draw& draw, std::span<float> plane) const {
  const int first_row = draw.centre_row - options_.cutout / 2;
  const int first_col = draw.centre_col - options_.cutout / 2;
  const int cols = static_cast<int>(shape_.cols);
  const int end_row = std::min(first_row + options_.cutout, static_cast<int>(shape_.rows));
  const int end_col = std::min(first_col + options_.cutout, cols);
  for (int r = std::max(first_row, 0); r < end_row; ++r) {
    for (int c = std::max(first_col, 0); c < end_col; ++c) plane[static_cast<std::size_t>(r * cols + c)] = 0;
  }
}

}  // namespace tutti::data
