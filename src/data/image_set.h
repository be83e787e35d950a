// Images with their labels, as the files hold them: mapped, and decoded only as far as somebody looks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/error.h"
#include "data/idx.h"

namespace tutti::data {

// Read-only, so any number of threads may share one. Spans live as long as the set.
class ImageSet {
 public:
  // Checks that there are as many images as labels and that every label is below `classes`. Throws DataError
  // that names the file, the offset and the value.
  static ImageSet open(const std::filesystem::path& images, const std::filesystem::path& labels,
                       std::size_t classes);

  std::size_t size() const { return images_.count(); }
  std::size_t rows() const { return images_.rows(); }
  std::size_t cols() const { return images_.cols(); }
  std::size_t pixels_per_image() const { return rows() * cols(); }

  std::span<const std::uint8_t> pixels(std::size_t i) const {
    TUTTI_CHECK(i < size(), "image {} of {}", i, size());
    return images_.items().subspan(i * pixels_per_image(), pixels_per_image());
  }
  std::uint8_t label(std::size_t i) const {
    TUTTI_CHECK(i < size(), "label {} of {}", i, size());
    return labels_.items()[i];
  }

 private:
  ImageSet(IdxFile images, IdxFile labels) : images_(std::move(images)), labels_(std::move(labels)) {}

  IdxFile images_;
  IdxFile labels_;
};

}  // namespace tutti::data
