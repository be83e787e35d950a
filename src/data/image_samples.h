// Labelled images as samples: normalised pixels and the number of the class.
#pragma once

#include "data/decode.h"
#include "data/samples.h"

namespace tutti::data {

class ImageSamples final : public Samples {
 public:
  ImageSamples(ImageSet set, std::size_t classes, const PixelTable& table);
  std::size_t size() const override { return set_.size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void decode(std::span<const std::uint32_t> indices,
              std::span<const std::span<std::byte>> into) const override;

 private:
  ImageSet set_;
  PixelTable table_;
  std::vector<Field> fields_;
};

// The fields of images of these sizes.
std::vector<Field> image_fields(std::size_t channels, std::size_t rows, std::size_t cols,
                                std::size_t classes);

}  // namespace tutti::data
