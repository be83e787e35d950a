// Which algorithm a collective should use, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/schedule.h"

namespace tutti::collectives {

// An all-reduce of at most so much among at most so many ranks is made in one shot: everyone gets everyone's
// whole buffer and combines all of them itself. More to read and add than any other way, and only one wait
// for the others, which is what so little data costs. (Two waits at 4 ranks on 2 cores ran at 0.8 of Open
// MPI's speed.)
inline constexpr std::size_t kOneShotBytes = 4096;
inline constexpr int kOneShotRanks = 8;
constexpr bool one_shot(std::uint64_t bytes, int world) {
  return bytes <= kOneShotBytes && world <= kOneShotRanks;
}

// What lies between the ranks: memory that all of them map, or links that carry messages.
enum class Medium { memory, network };

struct Choice {
  Algorithm algorithm{};
  std::string reason;  // one line for log and report
};

// For an operation over `bytes` bytes. A pure function, so that all ranks choose alike.
Choice choose(Operation operation, std::uint64_t bytes, int world, Medium medium);

// "ring", "direct", "halving-doubling", "tree"; nothing for "auto", which leaves it to choose().
// Throws ConfigError that lists the names.
std::optional<Algorithm> parse_algorithm(std::string_view text);

}  // namespace tutti::collectives
