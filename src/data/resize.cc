#include "data/resize.h"

#include <algorithm>

#include "base/error.h"

namespace tutti::data {

Resize::Resize(std::size_t rows_in, std::size_t cols_in, std::size_t rows_out, std::size_t cols_out)
    : rows_in_(rows_in), cols_in_(cols_in), rows_(taps(rows_in, rows_out)), cols_(taps(cols_in, cols_out)) {}

std::vector<Resize::Tap> Resize::taps(std::size_t in, std::size_t out) {
  std::vector<Tap> taps(out);
  const auto last = static_cast<double>(in - 1);
  for (std::size_t i = 0; i < out; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) / static_cast<double>(out);
    const double at = std::clamp(centre * static_cast<double>(in) - 0.5, 0.0, last);
    const auto low = static_cast<std::size_t>(at);
    taps[i] = {low, std::min(low + 1, in - 1), static_cast<float>(at - static_cast<double>(low))};
  }
  return taps;
}

void Resize::operator()(std::span<const float> in, std::span<float> out) const {
  TUTTI_CHECK(in.size() == rows_in_ * cols_in_ && out.size() == rows_.size() * cols_.size());
  float* to = out.data();
  for (const Tap& row : rows_) {
    const float* above = in.data() + row.low * cols_in_;
    const float* below = in.data() + row.high * cols_in_;
    for (const Tap& col : cols_) {
      const float a = above[col.low] + col.weight * (above[col.high] - above[col.low]);
      const float b = below[col.low] + col.weight * (below[col.high] - below[col.low]);
      *to++ = a + row.weight * (b - a);
    }
  }
}

}  // namespace tutti::data
