#include "optim/finite.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace tutti::optim {
namespace {

using Limits = std::numeric_limits<float>;

float of_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// Quiet and signalling NaN of both signs, the smallest and the largest payload, both infinities.
const std::vector<float> kNone = {of_bits(0x7fc00000), of_bits(0xffc00000), of_bits(0x7f800001),
                                  of_bits(0xff800001), of_bits(0x7fffffff), of_bits(0xffffffff),
                                  Limits::infinity(),  -Limits::infinity()};

const std::vector<float> kNumbers = {0.0F,
                                     -0.0F,
                                     Limits::denorm_min(),
                                     -Limits::denorm_min(),
                                     of_bits(0x007fffff),  // the largest without an exponent
                                     Limits::min(),
                                     1.0F,
                                     -1.5F,
                                     Limits::max(),
                                     Limits::lowest()};

// Around what vectors and blocks hold.
const std::vector<std::size_t> kLengths = {1, 2, 3, 7, 8, 9, 31, 33, 4095, 4096, 4097, 8192, 10007};

TEST(Finite, NothingHoldsNothingThatIsNone) {
  EXPECT_TRUE(all_finite({}));
  EXPECT_FALSE(first_nonfinite({}));
}

TEST(Finite, EveryNumberIsOne) {
  for (const std::size_t n : kLengths) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = kNumbers[i % kNumbers.size()];
    EXPECT_TRUE(all_finite(values)) << n;
    EXPECT_FALSE(first_nonfinite(values)) << n;
  }
}

TEST(Finite, OneThatIsNoneIsFoundWhereverItStands) {
  for (const std::size_t n : kLengths) {
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      for (const float none : kNone) {
        std::vector<float> values(n, Limits::max());
        values[at] = none;
        EXPECT_FALSE(all_finite(values)) << n << " " << at << " " << std::bit_cast<std::uint32_t>(none);
        EXPECT_EQ(first_nonfinite(values), at);
        values[n - 1] = none;
        EXPECT_EQ(first_nonfinite(values), at) << "the first of two";
      }
    }
  }
}

TEST(Finite, WhatStaysBelowTheLimitAddsUpToANumber) {
  for (const int count : {2, 3, 4, 5, 7, 8, 9, 64, 1000, 1024}) {
    const unsigned limit = exponent_limit(count);
    const float largest = std::nextafter(std::ldexp(1.0F, static_cast<int>(limit) - 127), 0.0F);
    const std::vector<float> worst(static_cast<std::size_t>(count), largest);
    EXPECT_TRUE(all_finite(worst, limit)) << count;
    EXPECT_TRUE(std::isfinite(std::accumulate(worst.begin(), worst.end(), 0.0F))) << count;
    const float next = std::nextafter(largest, Limits::max());
    EXPECT_EQ(first_nonfinite(std::vector<float>{1.0F, -next}, limit), 1U) << count;
    EXPECT_FALSE(all_finite(std::vector<float>{1.0F, -next}, limit)) << count;
    if (!std::has_single_bit(static_cast<unsigned>(count))) continue;
    const std::vector<float> twice(static_cast<std::size_t>(count), 2 * next);
    EXPECT_FALSE(std::isfinite(std::accumulate(twice.begin(), twice.end(), 0.0F)))
        << "the limit is lower than it need be for " << count;
  }
  EXPECT_EQ(exponent_limit(1), kNotFinite) << "one number is not added to anything";
}

}  // namespace
}  // namespace tutti::optim
