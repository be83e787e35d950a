#include "optim/finite.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/error.h"
#include "base/simd.h"

namespace tutti::optim {
namespace {

constexpr std::uint32_t kExponent = 0x7f800000;
constexpr unsigned kFractionBits = 23;

// As many as are read between two looks at the result: the loop inside has no branch and becomes vector
// code.
constexpr std::size_t kBlock = 4096;

// What, added to the bits of an exponent, carries into the sign bit if the exponent has reached the limit.
std::uint32_t carry_at(unsigned limit) {
  return 0x80000000U - (limit << kFractionBits);
}

TUTTI_SIMD_CLONES std::uint32_t carries(std::size_t n, const float* values, std::uint32_t carry) {
  std::uint32_t any = 0;
  for (std::size_t i = 0; i < n; ++i) any |= (std::bit_cast<std::uint32_t>(values[i]) & kExponent) + carry;
  return any >> 31;
}

}  // namespace

// Each of n numbers below 2^(127 - k), where n is at most 2^k, makes a sum below 2^127: the factor of two
// between that and infinity is more than rounding can add.
unsigned exponent_limit(int count) {
  TUTTI_CHECK(count >= 1);
  if (count == 1) return kNotFinite;
  return kNotFinite - 1 - static_cast<unsigned>(std::bit_width(static_cast<unsigned>(count - 1)));
}

bool all_finite(std::span<const float> values, unsigned limit) {
  const std::uint32_t carry = carry_at(limit);
  for (std::size_t at = 0; at < values.size(); at += kBlock) {
    if (carries(std::min(kBlock, values.size() - at), values.data() + at, carry) != 0) return false;
  }
  return true;
}

std::optional<std::size_t> first_nonfinite(std::span<const float> values, unsigned limit) {
  const std::uint32_t carry = carry_at(limit);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (carries(1, &values[i], carry) != 0) return i;
  }
  return std::nullopt;
}

}  // namespace tutti::optim
