#include "data/decode.h"

namespace tutti::data {
namespace {

void decode_one(const ImageSet& set, std::size_t image, const PixelTable& table, float* out) {
  for (const std::uint8_t pixel : set.pixels(image)) *out++ = table[pixel];
}

void check_room(const ImageSet& set, std::size_t count, std::size_t pixels, std::size_t labels) {
  TUTTI_CHECK(pixels >= count * set.pixels_per_image() && labels >= count,
              "{} images into {} floats, {} labels", count, pixels, labels);
}

}  // namespace

PixelTable normalising_table(float mean, float deviation) {
  PixelTable table;
  for (std::size_t x = 0; x < table.size(); ++x)
    table[x] = (static_cast<float>(x) / 255.0F - mean) / deviation;
  return table;
}

void decode(const ImageSet& set, std::span<const std::uint32_t> indices, const PixelTable& table,
            std::span<float> pixels, std::span<std::int64_t> labels) {
  check_room(set, indices.size(), pixels.size(), labels.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    decode_one(set, indices[i], table, pixels.data() + i * set.pixels_per_image());
    labels[i] = set.label(indices[i]);
  }
}

}  // namespace tutti::data
