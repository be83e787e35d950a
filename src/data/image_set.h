// Images with their labels, as files hold them: mapped, and looked at only as far as somebody asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::data {

struct ImageShape {
  std::size_t channels = 0;
  std::size_t rows = 0;
  std::size_t cols = 0;

  std::size_t plane() const { return rows * cols; }
  std::size_t pixels() const { return channels * plane(); }
  bool operator==(const ImageShape&) const = default;
};

// Read-only, so any number of threads may share one. Spans live as long as the set.
class ImageSet {
 public:
  virtual ~ImageSet() = default;
  virtual std::size_t size() const = 0;
  virtual ImageShape shape() const = 0;
  // Channel by channel, and each row by row.
  virtual std::span<const std::uint8_t> pixels(std::size_t i) const = 0;
  virtual std::uint8_t label(std::size_t i) const = 0;
};

}  // namespace tutti::data
