// Which algorithm a collective should use, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collectives/algorithms.h"

namespace tutti::collectives {

// Buffers so small cost only the waits for others, so the algorithm with the fewest waits is best, whatever
// it moves: by messages recursive doubling, for buffers up to
inline constexpr std::uint64_t kTinyBytes = 4096;
// and in shared memory one-shot, where the buffers of all ranks together are no larger than
inline constexpr std::uint64_t kOneShotBytes = 8192;

struct Choice {
  Algorithm algorithm{};
  std::string reason;  // one line for log and report
};

// The best for a call; or what was asked for, where it can serve it. A pure function, so that all ranks
// choose alike.
Choice choose(const Call& call, std::optional<Algorithm> asked = std::nullopt);

}  // namespace tutti::collectives
