// bfloat16 and float16 in software, written without branches so that loops over them vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti::collectives {

// The upper half of a float32.
[[gnu::always_inline]] inline float bf16_to_float(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

// To nearest, ties to even. A NaN stays one: its quiet bit is set, lest only lower bits had made it a NaN.
[[gnu::always_inline]] inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

[[gnu::always_inline]] inline float f16_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t magnitude = half & 0x7fffU;
  // The exponent's bias goes from 15 to 127; infinities and NaNs go on to the top exponent.
  const std::uint32_t rest = magnitude >= 0x7c00U ? 0xe0U << 23 : 0x70U << 23;
  const std::uint32_t normal = (magnitude << 13) + rest;
  // Subnormals are multiples of 2^-24.
  const auto tiny =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  return std::bit_cast<float>(sign | (magnitude < 0x0400U ? tiny : normal));
}

// To nearest, ties to even; beyond 65504 to infinity.
[[gnu::always_inline]] inline std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Round away the 13 lowest bits, a carry may go on into the exponent; its bias goes from 127 to 15.
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (0x70U << 23)) >> 13;
  // Below 2^-14 let the adder round: 0.5 has its last bit at 2^-24, as float16's subnormals have.
  const auto tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - (0x7eU << 23);
  const std::uint32_t special = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = magnitude < (0x71U << 23) ? tiny : normal;
  return static_cast<std::uint16_t>(sign | (magnitude >= (0x8fU << 23) ? special : finite));
}

}  // namespace tutti::collectives
