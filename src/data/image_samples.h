// Labelled images as samples: normalised pixels, in the size that is wanted, and the number of the class.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "data/image_set.h"
#include "data/resize.h"
#include "data/samples.h"

namespace tutti::data {

// What each of the 256 values of a pixel becomes.
using PixelTable = std::array<float, 256>;

// (x / 255 - mean) / deviation.
PixelTable normalising_table(float mean, float deviation);

class ImageSamples final : public Samples {
 public:
  // A table for each channel of the set. `fields` are image_fields() of any size; a set of one channel can
  // be given several, all the same.
  ImageSamples(std::unique_ptr<const ImageSet> set, std::vector<PixelTable> tables,
               std::vector<Field> fields);
  std::size_t size() const override { return set_->size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void decode(std::span<const std::uint32_t> indices,
              std::span<const std::span<std::byte>> into) const override;

 private:
  void decode_plane(std::span<const std::uint8_t> pixels, const PixelTable& table, std::span<float> scratch,
                    std::span<float> out) const;

  std::unique_ptr<const ImageSet> set_;
  std::vector<PixelTable> tables_;
  std::vector<Field> fields_;
  ImageShape in_, out_;
  std::optional<Resize> resize_;
};

// The fields of images of this shape, and the shape that such fields have.
// Named "image", normalised, or `kPixels`, from 0 to 1.
inline constexpr const char* kPixels = "pixels";
std::vector<Field> image_fields(const ImageShape& shape, std::size_t classes);
ImageShape shape_in(const std::vector<Field>& fields);

}  // namespace tutti::data
