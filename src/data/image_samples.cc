#include "data/image_samples.h"

namespace tutti::data {

std::vector<Field> image_fields(std::size_t channels, std::size_t rows, std::size_t cols,
                                std::size_t classes) {
  const auto n = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  return {{"image", DType::f32, {n(channels), n(rows), n(cols)}}, {"label", DType::i64, {}, n(classes)}};
}

ImageSamples::ImageSamples(ImageSet set, std::size_t classes, const PixelTable& table)
    : set_(std::move(set)), table_(table), fields_(image_fields(1, set_.rows(), set_.cols(), classes)) {}

void ImageSamples::decode(std::span<const std::uint32_t> indices,
                          std::span<const std::span<std::byte>> into) const {
  data::decode(set_, indices, table_, as_numbers<float>(into[0]), as_numbers<std::int64_t>(into[1]));
}

}  // namespace tutti::data
