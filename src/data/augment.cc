#include "data/augment.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "data/format.h"
#include "data/image_samples.h"

namespace tutti::data {

namespace {

using Place = std::ptrdiff_t;  // may lie before the first row or column

}  // namespace

struct Augment::Draw {
  Place down = 0;
  Place right = 0;
  bool flip = false;
  Place centre_row = 0;
  Place centre_col = 0;
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
  const auto below = [&](std::size_t bound) { return static_cast<Place>(random.below(bound)); };
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
  const auto rows = static_cast<Place>(shape_.rows);
  const auto cols = static_cast<Place>(shape_.cols);
  std::ranges::copy(plane, scratch.begin());
  auto to = plane.begin();
  for (Place r = 0; r < rows; ++r) {
    const Place from_row = r - draw.down;
    for (Place c = 0; c < cols; ++c) {
      const Place from_col = (draw.flip ? cols - 1 - c : c) - draw.right;
      const bool inside = from_row >= 0 && from_row < rows && from_col >= 0 && from_col < cols;
      *to++ = inside ? scratch[static_cast<std::size_t>(from_row * cols + from_col)] : 0;
    }
  }
}

void Augment::blank(const Draw& draw, std::span<float> plane) const {
  const auto rows = static_cast<Place>(shape_.rows);
  const auto cols = static_cast<Place>(shape_.cols);
  const Place first_row = draw.centre_row - options_.cutout / 2;
  const Place first_col = draw.centre_col - options_.cutout / 2;
  const Place end_row = std::min(first_row + options_.cutout, rows);
  const Place end_col = std::min(first_col + options_.cutout, cols);
  for (Place r = std::max<Place>(first_row, 0); r < end_row; ++r) {
    for (Place c = std::max<Place>(first_col, 0); c < end_col; ++c)
      plane[static_cast<std::size_t>(r * cols + c)] = 0;
  }
}

}  // namespace tutti::data
