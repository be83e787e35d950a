#include "collectives/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"
#include "collectives/half.h"

namespace tutti::collectives {
namespace {

std::vector<float> noise(std::size_t count, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> out(count);
  for (float& x : out) x = static_cast<float>(random.below(2'000'001)) * 1e-6F - 1.0F;
  return out;
}

template <class T>
std::vector<T> combined(DType type, ReduceOp op, std::vector<T> into, const std::vector<T>& from) {
  combine(type, op, into.data(), from.data(), into.size());
  return into;
}

template <class T>
std::vector<void*> pointers(std::vector<std::vector<T>>& buffers) {
  std::vector<void*> out;
  for (auto& b : buffers) out.push_back(b.data());
  return out;
}

TEST(Combine, DoesTheOperationOnEveryPlainType) {
  using F = std::vector<float>;
  EXPECT_EQ(combined<float>(DType::f32, ReduceOp::sum, F{1, 2, 3}, F{4, -5, 6}), (F{5, -3, 9}));
  EXPECT_EQ(combined<float>(DType::f32, ReduceOp::average, F{1, 2, 3}, F{4, -5, 6}), (F{5, -3, 9}));
  EXPECT_EQ(combined<float>(DType::f32, ReduceOp::min, F{1, 2, 3}, F{4, -5, 6}), (F{1, -5, 3}));
  EXPECT_EQ(combined<float>(DType::f32, ReduceOp::max, F{1, 2, 3}, F{4, -5, 6}), (F{4, 2, 6}));
  using D = std::vector<double>;
  EXPECT_EQ(combined<double>(DType::f64, ReduceOp::sum, D{0.1, 2}, D{0.2, 3}), (D{0.1 + 0.2, 5}));
  using I = std::vector<std::int32_t>;
  EXPECT_EQ(combined<std::int32_t>(DType::i32, ReduceOp::max, I{1, -2}, I{-1, 7}), (I{1, 7}));
  using L = std::vector<std::int64_t>;
  EXPECT_EQ(combined<std::int64_t>(DType::i64, ReduceOp::min, L{1, -2}, L{-1, 7}), (L{-1, -2}));
}

TEST(Combine, IntegerSumsWrap) {
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(combined<std::int32_t>(DType::i32, ReduceOp::sum, {kMost}, {1})[0],
            std::numeric_limits<std::int32_t>::min());
}

TEST(Combine, MultipliesAndCombinesBits) {
  using F = std::vector<float>;
  EXPECT_EQ(combined<float>(DType::f32, ReduceOp::product, F{1, 2, 3}, F{4, -5, 6}), (F{4, -10, 18}));
  const std::vector<std::uint16_t> halves = {float_to_f16(3), float_to_f16(-0.5F)};
  EXPECT_EQ(combined<std::uint16_t>(DType::f16, ReduceOp::product, halves, halves),
            (std::vector<std::uint16_t>{float_to_f16(9), float_to_f16(0.25F)}));
  using I = std::vector<std::int32_t>;
  EXPECT_EQ(combined<std::int32_t>(DType::i32, ReduceOp::product, I{1 << 20, 7}, I{1 << 20, -3}),
            (I{0, -21}));
  EXPECT_EQ(combined<std::int32_t>(DType::i32, ReduceOp::bit_and, I{0b1100, -1}, I{0b1010, 6}),
            (I{0b1000, 6}));
  using L = std::vector<std::int64_t>;
  EXPECT_EQ(combined<std::int64_t>(DType::i64, ReduceOp::bit_or, L{0b1100}, L{0b1010}), (L{0b1110}));
  EXPECT_EQ(combined<std::int64_t>(DType::i64, ReduceOp::bit_xor, L{0b1100}, L{0b1010}), (L{0b0110}));
}

TEST(CombineAcross, MultipliesAndCombinesBits) {
  for (const auto& [op, expected] :
       {std::pair(ReduceOp::product, 15 * 6 * 10), std::pair(ReduceOp::bit_and, 2),
        std::pair(ReduceOp::bit_or, 15), std::pair(ReduceOp::bit_xor, 15 ^ 6 ^ 10)}) {
    std::vector<std::vector<std::int32_t>> buffers = {{15, 15}, {6, 6}, {10, 10}};
    combine_across(DType::i32, op, pointers(buffers), 2);
    for (const auto& buffer : buffers)
      EXPECT_EQ(buffer, std::vector<std::int32_t>(2, expected)) << name_of(op);
  }
}

TEST(Combine, MinAndMaxOfANanAreNan) {
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    for (const float x : combined<float>(DType::f32, op, {NAN, 1, NAN}, {1, NAN, NAN}))
      EXPECT_TRUE(std::isnan(x));
  }
}

TEST(Combine, HalvesAreCombinedInFloat32) {
  const std::vector<float> a = noise(1001, 1);
  const std::vector<float> b = noise(1001, 2);
  std::vector<std::uint16_t> bf_a, bf_b, f_a, f_b;
  for (std::size_t i = 0; i < a.size(); ++i) {
    bf_a.push_back(float_to_bf16(a[i])), bf_b.push_back(float_to_bf16(b[i]));
    f_a.push_back(float_to_f16(a[i])), f_b.push_back(float_to_f16(b[i]));
  }
  const auto bf = combined<std::uint16_t>(DType::bf16, ReduceOp::sum, bf_a, bf_b);
  const auto f = combined<std::uint16_t>(DType::f16, ReduceOp::sum, f_a, f_b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(bf[i], float_to_bf16(bf16_to_float(bf_a[i]) + bf16_to_float(bf_b[i])));
    ASSERT_EQ(f[i], float_to_f16(f16_to_float(f_a[i]) + f16_to_float(f_b[i])));
  }
}

TEST(CombineAcross, GivesAllBuffersTheBitsOfCombiningInOrder) {
  for (const std::size_t count : {0U, 1U, 7U, 4096U, 10'001U}) {
    for (const std::size_t ranks : {1U, 2U, 3U, 4U, 7U}) {
      std::vector<std::vector<float>> buffers;
      for (std::size_t r = 0; r < ranks; ++r) buffers.push_back(noise(count, r));
      std::vector<float> expected = buffers[0];
      for (std::size_t r = 1; r < ranks; ++r)
        expected = combined(DType::f32, ReduceOp::sum, expected, buffers[r]);
      divide(DType::f32, expected.data(), count, static_cast<int>(ranks));
      combine_across(DType::f32, ReduceOp::average, pointers(buffers), count, static_cast<int>(ranks));
      for (const auto& b : buffers) ASSERT_EQ(b, expected) << count << " elements, " << ranks << " ranks";
    }
  }
}

TEST(CombineAcross, FindsTheLargest) {
  std::vector<std::vector<std::int64_t>> buffers{{1, 9, 3}, {4, 5, 6}, {-7, 8, 7}};
  combine_across(DType::i64, ReduceOp::max, pointers(buffers), 3);
  for (const auto& b : buffers) EXPECT_EQ(b, (std::vector<std::int64_t>{4, 9, 7}));
}

TEST(CombineAcross, RoundsHalvesOnceAtTheEnd) {
  // 256 + 1 + 1: bfloat16 has no 257, so that rounding on the way would lose both ones.
  std::vector<std::vector<std::uint16_t>> buffers{
      {float_to_bf16(256)}, {float_to_bf16(1)}, {float_to_bf16(1)}};
  combine_across(DType::bf16, ReduceOp::sum, pointers(buffers), 1);
  for (const auto& b : buffers) EXPECT_EQ(bf16_to_float(b[0]), 258.0F);
}

TEST(Divide, IntegersTruncateAndFloatsDivide) {
  std::vector<std::int32_t> i{7, -7, 3};
  divide(DType::i32, i.data(), i.size(), 2);
  EXPECT_EQ(i, (std::vector<std::int32_t>{3, -3, 1}));
  std::vector<float> f{1.0F, 5.0F};
  divide(DType::f32, f.data(), f.size(), 3);
  EXPECT_EQ(f, (std::vector<float>{1.0F / 3.0F, 5.0F / 3.0F}));
  std::vector<double> d{1.0, 5.0};
  divide(DType::f64, d.data(), d.size(), 8);
  EXPECT_EQ(d, (std::vector<double>{0.125, 0.625}));
}

}  // namespace
}  // namespace tutti::collectives
