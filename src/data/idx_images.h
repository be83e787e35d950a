// Images and labels from a pair of IDX files: MNIST, Fashion-MNIST.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "data/idx.h"
#include "data/image_format.h"

namespace tutti::data {

class IdxImages final : public ImageSet {
 public:
  // Checks that there are as many images as labels and that every label is below `classes`. Throws DataError
  // that names the file, the offset and the value.
  static IdxImages open(const std::filesystem::path& images, const std::filesystem::path& labels,
                        std::size_t classes);

  std::size_t size() const override { return images_.count(); }
  ImageShape shape() const override { return {1, images_.rows(), images_.cols()}; }
  std::span<const std::uint8_t> pixels(std::size_t i) const override {
    TUTTI_CHECK(i < size(), "image {} of {}", i, size());
    return images_.items().subspan(i * shape().pixels(), shape().pixels());
  }
  std::uint8_t label(std::size_t i) const override {
    TUTTI_CHECK(i < size(), "label {} of {}", i, size());
    return labels_.items()[i];
  }

 private:
  IdxImages(IdxFile images, IdxFile labels) : images_(std::move(images)), labels_(std::move(labels)) {}

  IdxFile images_;
  IdxFile labels_;
};

// Two files a part: images, labels. Each may be gzipped.
class IdxFormat final : public ImageFormat {
 public:
  using ImageFormat::ImageFormat;

 private:
  std::unique_ptr<const ImageSet> open_set(std::span<const std::string> files) const override;
  PlainFile plain(const std::string& file) const override { return prepare_idx(file); }
};

}  // namespace tutti::data
