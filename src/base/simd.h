// TUTTI_SIMD_CLONES before a function compiles it twice, for AVX2 and for any x86-64; the loader picks one.
//
// Both clones give the same bits only if the compiler may not fuse a multiply and an add, so a source that
// uses this is compiled with -ffp-contract=off. Under sanitizers the macro is empty: the choice is made while
// the program loads, before their runtime is up.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(TUTTI_SANITIZED)
#define TUTTI_SIMD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TUTTI_SIMD_CLONES
#endif
