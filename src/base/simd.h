// TUTTI_SIMD_CLONES before a function compiles it twice, for AVX2 and for any x86-64; the loader picks one
// when the program starts. What the function calls must be always_inline to be compiled along with it. Empty
// under sanitizers (they run too late for the loader's choice) and for other compilers and machines.
#pragma once

#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(TUTTI_SANITIZED)
#define TUTTI_SIMD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TUTTI_SIMD_CLONES
#endif

namespace tutti {

// Rows that are read in no order come from far; asked for this many rows ahead they come together.
inline constexpr std::size_t kRowsAhead = 16;

// Each begins to load `count` floats at `row`.
inline constexpr std::size_t kFloatsALine = 16;
inline void prefetch_to_read(const float* row, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kFloatsALine) __builtin_prefetch(row + i, 0);
}
inline void prefetch_to_write(const float* row, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kFloatsALine) __builtin_prefetch(row + i, 1);
}

}  // namespace tutti
