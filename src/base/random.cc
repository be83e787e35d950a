#include "base/random.h"

namespace tutti {

SplitMix64::result_type SplitMix64::operator()() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint64_t SplitMix64::below(std::uint64_t bound) {
  // Lemire's multiply-and-reject.
  while (true) {
    const auto product = static_cast<unsigned __int128>((*this)()) * bound;
    if (static_cast<std::uint64_t>(product) >= (0 - bound) % bound)
      return static_cast<std::uint64_t>(product >> 64);
  }
}

std::uint64_t mix_seed(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t seed = 0;
  for (const std::uint64_t part : parts) seed = SplitMix64(seed ^ part)();
  return seed;
}

}  // namespace tutti
