#include "collectives/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tutti::collectives {
namespace {

// By the definition of the format: 10 bits of mantissa, bias 15.
float f16_by_definition(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int mantissa = half & 0x3ff;
  const float sign = (half & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0x1f) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

TEST(Float16, ReadsEveryValueByItsDefinition) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float expected = f16_by_definition(static_cast<std::uint16_t>(h));
    const float got = f16_to_float(static_cast<std::uint16_t>(h));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << h;
      ASSERT_TRUE(std::isnan(f16_to_float(float_to_f16(got)))) << h;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected)) << h;
      ASSERT_EQ(float_to_f16(got), h);
    }
  }
}

// Between every two neighbours: just below the middle goes down, just above goes up, the middle goes to the
// even one. The last pair is the largest finite value and infinity, whose middle is half a step above the
// former.
template <class ToHalf, class ToFloat>
void check_rounding(std::uint16_t infinity, double step_at_top, ToHalf to_half, ToFloat to_float) {
  for (std::uint16_t h = 0; h < infinity; ++h) {
    const double low = to_float(h);
    const double high = h + 1 == infinity ? low + step_at_top : static_cast<double>(to_float(h + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    if (static_cast<double>(middle) != (low + high) / 2) continue;  // below float32's own subnormals
    ASSERT_EQ(to_half(middle), h % 2 == 0 ? h : h + 1) << h;
    ASSERT_EQ(to_half(std::nextafter(middle, 0.0F)), h) << h;
    ASSERT_EQ(to_half(std::nextafter(middle, INFINITY)), h + 1) << h;
    ASSERT_EQ(to_half(-middle), 0x8000 | (h % 2 == 0 ? h : h + 1)) << h;
  }
}

TEST(Float16, RoundsToNearestEven) {
  check_rounding(
      0x7c00, 32.0, [](float x) { return float_to_f16(x); },
      [](int h) { return f16_to_float(static_cast<std::uint16_t>(h)); });
}

TEST(Float16, OverflowsToInfinityAndUnderflowsToZero) {
  EXPECT_EQ(float_to_f16(1e9F), 0x7c00);
  EXPECT_EQ(float_to_f16(-INFINITY), 0xfc00);
  EXPECT_EQ(float_to_f16(1e-30F), 0);
  EXPECT_EQ(float_to_f16(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(Bfloat16, RoundsToNearestEven) {
  check_rounding(
      0x7f80, std::ldexp(1.0, 120), [](float x) { return float_to_bf16(x); },
      [](int h) { return bf16_to_float(static_cast<std::uint16_t>(h)); });
}

TEST(Bfloat16, KeepsNansEvenThoseOfLowBitsOnly) {
  for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fffffffU, 0x7fc00000U}) {
    EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(bits))))) << bits;
  }
}

}  // namespace
}  // namespace tutti::collectives
