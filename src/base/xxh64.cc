#include "base/xxh64.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <initializer_list>

namespace tutti {
namespace {

constexpr std::uint64_t kP1 = 0x9E3779B185EBCA87U;
constexpr std::uint64_t kP2 = 0xC2B2AE3D27D4EB4FU;
constexpr std::uint64_t kP3 = 0x165667B19E3779F9U;
constexpr std::uint64_t kP4 = 0x85EBCA77C2B2AE63U;
constexpr std::uint64_t kP5 = 0x27D4EB2F165667C5U;

template <typename Word>
Word read(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kP2, 31) * kP1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kP1 + kP4;
}

std::uint64_t scatter(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kP2;
  hash = (hash ^ (hash >> 29)) * kP3;
  return hash ^ (hash >> 32);
}

// What is left behind the last whole block.
std::uint64_t take_rest(std::uint64_t hash, const std::byte* at, const std::byte* end) {
  for (; end - at >= 8; at += 8) hash = std::rotl(hash ^ round(0, read<std::uint64_t>(at)), 27) * kP1 + kP4;
  for (; end - at >= 4; at += 4) hash = std::rotl(hash ^ read<std::uint32_t>(at) * kP1, 23) * kP2 + kP3;
  for (; at < end; ++at) hash = std::rotl(hash ^ std::to_integer<std::uint64_t>(*at) * kP5, 11) * kP1;
  return hash;
}

}  // namespace

// Four lanes side by side, so that a multiplication need not wait for the one before it.
std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed) {
  constexpr std::size_t kBlock = 32;
  const std::byte* at = bytes.data();
  const std::byte* end = at + bytes.size();
  std::uint64_t hash = seed + kP5;
  if (bytes.size() >= kBlock) {
    std::uint64_t a = seed + kP1 + kP2;
    std::uint64_t b = seed + kP2;
    std::uint64_t c = seed;
    std::uint64_t d = seed - kP1;
    for (; static_cast<std::size_t>(end - at) >= kBlock; at += kBlock) {
      a = round(a, read<std::uint64_t>(at));
      b = round(b, read<std::uint64_t>(at + 8));
      c = round(c, read<std::uint64_t>(at + 16));
      d = round(d, read<std::uint64_t>(at + 24));
    }
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (const std::uint64_t lane : {a, b, c, d}) hash = merge(hash, lane);
  }
  return scatter(take_rest(hash + bytes.size(), at, end));
}

std::string hex64(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace tutti
