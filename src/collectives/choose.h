// Which algorithm a collective should use, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/schedule.h"

namespace tutti::collectives {

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
