#include "data/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tutti::data {
namespace {

// The formula, a pixel at a time: the value at a point of the plane whose pixels have their centres at
// halves.
double bilinear_at(const std::vector<float>& in, std::size_t rows, std::size_t cols, double y, double x) {
  y = std::clamp(y - 0.5, 0.0, static_cast<double>(rows - 1));
  x = std::clamp(x - 0.5, 0.0, static_cast<double>(cols - 1));
  double value = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) {
      const double wy = std::max(0.0, 1 - std::abs(y - static_cast<double>(r)));
      const double wx = std::max(0.0, 1 - std::abs(x - static_cast<double>(c)));
      value += wy * wx * in[r * cols + c];
    }
  }
  return value;
}

TEST(Resize, IsTheBilinearFormulaInEverySize) {
  const std::size_t rows = 5;
  const std::size_t cols = 7;
  std::vector<float> in(rows * cols);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>((i * 37) % 23) - 11;
  for (const auto& [to_rows, to_cols] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
           {5, 7}, {10, 14}, {3, 2}, {1, 1}, {8, 5}, {224, 3}}) {
    std::vector<float> out(to_rows * to_cols);
    Resize(rows, cols, to_rows, to_cols)(in, out);
    for (std::size_t r = 0; r < to_rows; ++r) {
      for (std::size_t c = 0; c < to_cols; ++c) {
        const double y = (static_cast<double>(r) + 0.5) * rows / static_cast<double>(to_rows);
        const double x = (static_cast<double>(c) + 0.5) * cols / static_cast<double>(to_cols);
        EXPECT_NEAR(out[r * to_cols + c], bilinear_at(in, rows, cols, y, x), 1e-4)
            << to_rows << "x" << to_cols << " at " << r << "," << c;
      }
    }
  }
}

std::vector<float> scaled(const std::vector<std::uint8_t>& in, PlaneSize from, PlaneSize to) {
  std::vector<float> out(to.count());
  scale_bytes(in, from, out, to);
  return out;
}

TEST(ScaleBytes, ToTheSameSizeIsTheBytesOver255) {
  EXPECT_EQ(scaled({0, 51, 255, 102}, {2, 2}, {2, 2}), (std::vector<float>{0, 0.2F, 1, 0.4F}));
}

TEST(ScaleBytes, ByAWholeFactorIsTheMeanOfAllPixels) {
  EXPECT_EQ(scaled({0, 255, 0, 0, 255, 255, 0, 51}, {2, 4}, {1, 2}), (std::vector<float>{0.75F, 0.05F}));
  // A bright pixel counts wherever it is.
  for (std::size_t at = 0; at < 36; ++at) {
    std::vector<std::uint8_t> in(36);
    in[at] = 255;
    EXPECT_FLOAT_EQ(scaled(in, {6, 6}, {1, 1})[0], 1 / 36.0F) << at;
  }
}

TEST(ScaleBytes, ToALargerSizeIsBilinear) {
  const std::vector<float> numbers = {0, 1, 0.2F};
  std::vector<float> expected(10);
  Resize(1, 3, 2, 5)(numbers, expected);
  EXPECT_EQ(scaled({0, 255, 51}, {1, 3}, {2, 5}), expected);
}

TEST(ScaleBytes, BetweenFactorsAveragesFirstAndThenInterpolates) {
  // 5 become 5 / 2 = 2 by two or three neighbours; then 2 remain.
  EXPECT_EQ(scaled({0, 255, 255, 255, 255}, {1, 5}, {1, 2}), (std::vector<float>{0.5F, 1}));
  // 7 become 3 by two neighbours, or three; of those 2 lie between.
  const auto out = scaled({0, 0, 51, 51, 255, 255, 255}, {1, 7}, {1, 3});
  EXPECT_EQ(out, (std::vector<float>{0, 0.2F, 1}));
}

TEST(Resize, ToTheSameSizeChangesNothing) {
  const std::vector<float> in = {1, 2, 3, 4, 5, 6};
  std::vector<float> out(6);
  Resize(2, 3, 2, 3)(in, out);
  EXPECT_EQ(out, in);
}

}  // namespace
}  // namespace tutti::data
