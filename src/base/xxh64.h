// XXH64 (Collet 2012): 64 bits of digest at the speed of memory.
//
// For finding out whether two copies are the same, where nobody wants them to look so: a change of one word
// always shows, other changes but for one in 2^64. Against somebody who does want it there is base/crypto.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tutti {

std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

// Sixteen hexadecimal digits.
std::string hex64(std::uint64_t value);

}  // namespace tutti
