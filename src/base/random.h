// A small generator whose stream is ours, so that a seed means the same samples on every platform and
// library.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace tutti {

// splitmix64 (Steele, Lea, Flood 2014): 64 bits of state, every seed good. Satisfies
// UniformRandomBitGenerator.
class SplitMix64 {
 public:
  using result_type = std::uint64_t;
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()();

  // Uniform in [0, bound), without bias. bound > 0.
  std::uint64_t below(std::uint64_t bound);

 private:
  std::uint64_t state_;
};

// One seed out of several numbers, order matters: mix_seed({seed, epoch, rank}).
std::uint64_t mix_seed(std::initializer_list<std::uint64_t> parts);

}  // namespace tutti
