// Which algorithm a collective should use, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/schedule.h"

namespace tutti::collectives {

// What is so small costs only the waits for others, so it is moved as a whole, as often as it takes to wait
// least.
//
// By messages: partners exchange all they have and both combine it, in log2 N rounds, where halving and
// doubling take twice as many to move less.
inline constexpr std::uint64_t kTinyBytes = 4096;
// In shared memory: everyone reads everyone's and combines all of them itself, after one wait instead of two.
// That is N times the reading, so of little together.
inline constexpr std::uint64_t kOneShotBytes = 8192;
constexpr bool one_shot(std::uint64_t bytes, int world) {
  return bytes * static_cast<std::uint64_t>(world) <= kOneShotBytes;
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
