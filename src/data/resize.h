// Planes of numbers, and of bytes, in another size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::data {

// Bilinear, with the centres of pixels at halves: pixel i of n lies at (i + 1/2) / n of the side. What would
// lie beyond the outermost centres is as they are.
class Resize {
 public:
  Resize(std::size_t rows_in, std::size_t cols_in, std::size_t rows_out, std::size_t cols_out);

  // Row by row; the spans have exactly the sizes that were said.
  void operator()(std::span<const float> in, std::span<float> out) const;

 private:
  // Between which two places an output lies, and how near to the second.
  struct Tap {
    std::size_t low = 0;
    std::size_t high = 0;
    float weight = 0;
  };
  static std::vector<Tap> taps(std::size_t in, std::size_t out);

  std::size_t rows_in_, cols_in_;
  std::vector<Tap> rows_, cols_;
};

struct PlaneSize {
  std::size_t rows = 0;
  std::size_t cols = 0;

  std::size_t count() const { return rows * cols; }
  bool operator==(const PlaneSize&) const = default;
};

// A plane of bytes as numbers from 0 to 1, in another size. What becomes less than half as large is averaged
// first: Resize would look at some of the pixels and skip the others.
void scale_bytes(std::span<const std::uint8_t> in, PlaneSize from, std::span<float> out, PlaneSize to);

}  // namespace tutti::data
