// The binary version of CIFAR-10: records of one byte of label and 3 x 32 x 32 bytes of pixels, planes of
// red, green and blue.
#pragma once

#include "base/file.h"
#include "data/image_format.h"

namespace tutti::data {

class CifarImages final : public ImageSet {
 public:
  static constexpr ImageShape kShape{3, 32, 32};

  // The records of all files, in order. Checks lengths and that every label is below `classes`. Throws
  // DataError that names the file, the offset and the value.
  CifarImages(std::span<const std::string> files, std::size_t classes);

  std::size_t size() const override { return size_; }
  ImageShape shape() const override { return kShape; }
  std::span<const std::uint8_t> pixels(std::size_t i) const override;
  std::uint8_t label(std::size_t i) const override;

 private:
  std::span<const std::byte> record(std::size_t i) const;

  std::vector<Mapping> files_;
  std::size_t size_ = 0;
};

class CifarFormat final : public ImageFormat {
 public:
  using ImageFormat::ImageFormat;

 private:
  std::unique_ptr<const ImageSet> open_set(std::span<const std::string> files) const override;
  PlainFile plain(const std::string& source) const override { return {source, {}}; }
};

}  // namespace tutti::data
