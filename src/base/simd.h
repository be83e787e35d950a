// TUTTI_SIMD_CLONES before a function compiles it twice, for AVX2 and for any x86-64; the loader picks one
// when the program starts. What the function calls must be always_inline to be compiled along with it. Empty
// under sanitizers (they run too late for the loader's choice) and for other compilers and machines.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(TUTTI_SANITIZED)
#define TUTTI_SIMD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TUTTI_SIMD_CLONES
#endif
