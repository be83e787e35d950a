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

namespace {

// How many of `in` remain when so many neighbours become one that there are no fewer than `out`.
std::size_t averaged_size(std::size_t in, std::size_t out) {
  return in >= 2 * out ? in / (in / out) : in;
}

// Where each of `out` runs of `in` pixels begins, and where the last one ends.
std::vector<std::size_t> run_edges(std::size_t in, std::size_t out) {
  std::vector<std::size_t> edges(out + 1);
  for (std::size_t i = 0; i <= out; ++i) edges[i] = i * in / out;
  return edges;
}

void average_bytes(std::span<const std::uint8_t> in, PlaneSize from, std::span<float> out, PlaneSize to) {
  const auto rows = run_edges(from.rows, to.rows);
  const auto cols = run_edges(from.cols, to.cols);
  for (std::size_t y = 0; y < to.rows; ++y) {
    for (std::size_t x = 0; x < to.cols; ++x) {
      std::uint64_t sum = 0;
      for (std::size_t row = rows[y]; row < rows[y + 1]; ++row) {
        for (std::size_t col = cols[x]; col < cols[x + 1]; ++col) sum += in[row * from.cols + col];
      }
      const auto pixels = static_cast<float>((rows[y + 1] - rows[y]) * (cols[x + 1] - cols[x]));
      out[y * to.cols + x] = static_cast<float>(sum) / (255.0F * pixels);
    }
  }
}

}  // namespace

void scale_bytes(std::span<const std::uint8_t> in, PlaneSize from, std::span<float> out, PlaneSize to) {
  TUTTI_CHECK(in.size() == from.count() && out.size() == to.count());
  const PlaneSize between{averaged_size(from.rows, to.rows), averaged_size(from.cols, to.cols)};
  if (between == to) return average_bytes(in, from, out, to);
  std::vector<float> averaged(between.count());
  average_bytes(in, from, averaged, between);
  Resize(between.rows, between.cols, to.rows, to.cols)(averaged, out);
}

}  // namespace tutti::data
