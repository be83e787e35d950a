// Which algorithm a collective should use, and why.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/algorithms.h"

namespace tutti::collectives {

// What is so small costs only the waits for others, so it is moved as a whole, as often as it takes to wait
// least.
//
// By messages: recursive doubling takes log2 N rounds, where halving and doubling take twice as many to move
// less.
inline constexpr std::uint64_t kTinyBytes = 4096;
// In shared memory: what all ranks have, together.
inline constexpr std::uint64_t kOneShotBytes = 8192;

struct Choice {
  Algorithm algorithm{};
  std::string reason;  // one line for log and report
};

// A pure function, so that all ranks choose alike.
Choice choose(const Call& call);

}  // namespace tutti::collectives
