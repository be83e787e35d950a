// Floats of one format, seen as sign and magnitude, are ordered like their values: the next float up has the
// next magnitude. Mapped to an integer that is minus the magnitude for negative ones, two floats are as many
// ULPs apart as their integers:
//
//     ... -2u  -1u  -0|+0  +1u  +2u ...
//     ...  -2   -1     0     1    2 ...
#include "checkpoint/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace tutti::checkpoint {
namespace {

template <typename BitsType>
struct FloatOrder {
  using Bits = BitsType;
  static std::int64_t ordered(Bits bits) {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    const auto magnitude = static_cast<std::int64_t>(bits & static_cast<Bits>(~kSign));
    return (bits & kSign) != 0 ? -magnitude : magnitude;
  }
};

struct F32 : FloatOrder<std::uint32_t> {
  static double value(Bits bits) { return std::bit_cast<float>(bits); }
};
struct F64 : FloatOrder<std::uint64_t> {
  static double value(Bits bits) { return std::bit_cast<double>(bits); }
};
struct Bf16 : FloatOrder<std::uint16_t> {
  static double value(Bits bits) { return F32::value(std::uint32_t{bits} << 16); }
};
struct F16 : FloatOrder<std::uint16_t> {
  static double value(Bits bits) {
    const int exponent = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    const double sign = (bits >> 15) != 0 ? -1 : 1;
    if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
    return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
  }
};

template <typename Integer>
struct Whole {
  using Bits = Integer;
  static std::int64_t ordered(Bits bits) { return bits; }
  static double value(Bits bits) { return static_cast<double>(bits); }
};

template <typename Function>
auto with_type(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f32:
      return function(F32{});
    case DType::f64:
      return function(F64{});
    case DType::i32:
      return function(Whole<std::int32_t>{});
    case DType::i64:
      return function(Whole<std::int64_t>{});
    case DType::bf16:
      return function(Bf16{});
    case DType::f16:
      return function(F16{});
  }
  TUTTI_CHECK(false, "dtype {}", static_cast<int>(dtype));
  return function(F32{});
}

template <typename Type>
typename Type::Bits bits_at(std::span<const std::byte> bytes, std::size_t index) {
  typename Type::Bits bits;
  std::memcpy(&bits, bytes.data() + index * sizeof bits, sizeof bits);
  return bits;
}

std::uint64_t distance(std::int64_t a, std::int64_t b) {
  const auto [low, high] = std::minmax(a, b);
  return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
}

template <typename Type>
ElementDifferences compare_as(std::span<const std::byte> a, std::span<const std::byte> b) {
  ElementDifferences out;
  const std::size_t n = a.size() / sizeof(typename Type::Bits);
  for (std::size_t i = 0; i < n; ++i) {
    const auto x = bits_at<Type>(a, i);
    const auto y = bits_at<Type>(b, i);
    if (x == y) continue;
    if (out.differing++ == 0) out.first = static_cast<std::int64_t>(i);
    const double value_x = Type::value(x);
    const double value_y = Type::value(y);
    if (std::isnan(value_x) || std::isnan(value_y)) {
      ++out.nan;
      continue;
    }
    const auto ulps = distance(Type::ordered(x), Type::ordered(y));
    if (ulps == 0) ++out.zero_signs;
    out.max_ulps = std::max(out.max_ulps, ulps);
    out.max_abs = std::max(out.max_abs, std::abs(value_x - value_y));
  }
  return out;
}

template <typename Type>
Statistics statistics_as(std::span<const std::byte> bytes) {
  Statistics out;
  const std::size_t n = bytes.size() / sizeof(typename Type::Bits);
  std::int64_t counted = 0;
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = Type::value(bits_at<Type>(bytes, i));
    if (std::isnan(value)) {
      ++out.nan;
      continue;
    }
    out.min = counted == 0 ? value : std::min(out.min, value);
    out.max = counted == 0 ? value : std::max(out.max, value);
    sum += value;
    squares += value * value;
    ++counted;
  }
  if (counted > 0) out.mean = sum / static_cast<double>(counted);
  out.l2 = std::sqrt(squares);
  return out;
}

}  // namespace

ElementDifferences compare(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  TUTTI_CHECK(a.size() == b.size(), "{} bytes against {}", a.size(), b.size());
  return with_type(dtype, [&](auto type) { return compare_as<decltype(type)>(a, b); });
}

Statistics statistics(DType dtype, std::span<const std::byte> bytes) {
  return with_type(dtype, [&](auto type) { return statistics_as<decltype(type)>(bytes); });
}

}  // namespace tutti::checkpoint
