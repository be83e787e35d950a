#include "data/image_samples.h"

#include <algorithm>

#include "base/error.h"

namespace tutti::data {

PixelTable normalising_table(float mean, float deviation) {
  PixelTable table;
  for (std::size_t x = 0; x < table.size(); ++x)
    table[x] = (static_cast<float>(x) / 255.0F - mean) / deviation;
  return table;
}

std::vector<Field> image_fields(const ImageShape& shape, std::size_t classes) {
  const auto n = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  return {{"image", DType::f32, {n(shape.channels), n(shape.rows), n(shape.cols)}},
          {"label", DType::i64, {}, n(classes)}};
}

ImageShape shape_in(const std::vector<Field>& fields) {
  const auto& shape = fields.at(0).shape;
  const auto n = [&](std::size_t i) { return static_cast<std::size_t>(shape.at(i)); };
  return {n(0), n(1), n(2)};
}

ImageSamples::ImageSamples(std::unique_ptr<const ImageSet> set, std::vector<PixelTable> tables,
                           std::vector<Field> fields)
    : set_(std::move(set)),
      tables_(std::move(tables)),
      fields_(std::move(fields)),
      in_(set_->shape()),
      out_(shape_in(fields_)) {
  TUTTI_CHECK(tables_.size() == in_.channels && (in_.channels == 1 || in_.channels == out_.channels));
  if (in_.rows != out_.rows || in_.cols != out_.cols)
    resize_.emplace(in_.rows, in_.cols, out_.rows, out_.cols);
}

void ImageSamples::decode(std::span<const std::uint32_t> indices,
                          std::span<const std::span<std::byte>> into) const {
  const auto labels = as_numbers<std::int64_t>(into[1]);
  const auto pixels = as_numbers<float>(into[0]);
  TUTTI_CHECK(pixels.size() >= indices.size() * out_.pixels() && labels.size() >= indices.size(),
              "{} images into {} floats, {} labels", indices.size(), pixels.size(), labels.size());
  std::vector<float> scratch(resize_ ? in_.plane() : 0);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto image = pixels.subspan(i * out_.pixels(), out_.pixels());
    for (std::size_t c = 0; c < in_.channels; ++c) {
      decode_plane(set_->pixels(indices[i]).subspan(c * in_.plane(), in_.plane()), tables_[c], scratch,
                   image.subspan(c * out_.plane(), out_.plane()));
    }
    for (std::size_t c = in_.channels; c < out_.channels; ++c) {
      std::ranges::copy(image.first(out_.plane()), image.subspan(c * out_.plane()).begin());
    }
    labels[i] = set_->label(indices[i]);
  }
}

void ImageSamples::decode_plane(std::span<const std::uint8_t> pixels, const PixelTable& table,
                                std::span<float> scratch, std::span<float> out) const {
  float* to = resize_ ? scratch.data() : out.data();
  for (const std::uint8_t pixel : pixels) *to++ = table[pixel];
  if (resize_) (*resize_)(scratch, out);
}

}  // namespace tutti::data
