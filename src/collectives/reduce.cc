// Each kernel is a plain loop, a template over element type and operation, always inlined into one ordinary
// function per type; these functions are what the compiler clones for AVX2 (it cannot clone templates).
//
// combine_across goes through memory once. Two buffers, and the plain sum of four, need one loop and no
// memory of their own. Others go block by block, so that the partial result of a block is still in the
// nearest cache when the next buffer's block comes:
//
//     b0  [block][block] ...     partial = b0 op b1
//     b1  [block][block] ...     partial = partial op b2, and so on up to the last but one
//     b2  [block][block] ...     b0 = b3 = partial op b3, divided; then copied to the others
//     b3  [block][block] ...
#include "collectives/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/simd.h"
#include "collectives/half.h"

#define TUTTI_INLINE [[gnu::always_inline]] inline

namespace tutti::collectives {
namespace {

// An element as it is stored, and as it is computed with.
template <class T>
struct Plain {
  using Stored = T;
  using Wide = T;
  TUTTI_INLINE static T load(T x) { return x; }
  TUTTI_INLINE static T store(T x) { return x; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Wide = float;
  TUTTI_INLINE static float load(Stored x) { return bf16_to_float(x); }
  TUTTI_INLINE static Stored store(float x) { return float_to_bf16(x); }
};
struct F16 {
  using Stored = std::uint16_t;
  using Wide = float;
  TUTTI_INLINE static float load(Stored x) { return f16_to_float(x); }
  TUTTI_INLINE static Stored store(float x) { return float_to_f16(x); }
};

struct Sum {
  template <class W>
  TUTTI_INLINE static W of(W a, W b) {
    if constexpr (std::is_integral_v<W>) {
      using Unsigned = std::make_unsigned_t<W>;  // wraps, where signed overflow would be undefined
      return static_cast<W>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};
struct Product {
  template <class W>
  TUTTI_INLINE static W of(W a, W b) {
    if constexpr (std::is_integral_v<W>) {
      using Unsigned = std::make_unsigned_t<W>;
      return static_cast<W>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
    } else {
      return a * b;
    }
  }
};
struct BitAnd {
  template <class W>
  TUTTI_INLINE static W of(W a, W b) {
    return a & b;
  }
};
struct BitOr {
  template <class W>
  TUTTI_INLINE static W of(W a, W b) {
    return a | b;
  }
};
struct BitXor {
  template <class W>
  TUTTI_INLINE static W of(W a, W b) {
    return a ^ b;
  }
};
// a != a is true of a NaN alone; if b is the NaN the comparison fails and b it is.
struct Min {
  template <class W>
  TUTTI_INLINE static W of(W a, W b) {
    return ((a < b) | (a != a)) ? a : b;
  }
};
struct Max {
  template <class W>
  TUTTI_INLINE static W of(W a, W b) {
    return ((a > b) | (a != a)) ? a : b;
  }
};

// What happens to a finished element.
template <class W>
struct Keep {
  TUTTI_INLINE W operator()(W x) const { return x; }
};
template <class W>
struct Multiply {
  W by;
  TUTTI_INLINE W operator()(W x) const { return x * by; }
};
template <class W>
struct Divide {
  W by;
  TUTTI_INLINE W operator()(W x) const { return x / by; }
};

template <class E, class Op>
TUTTI_INLINE void combine_loop(void* into, const void* from, std::size_t count) {
  auto* __restrict a = static_cast<typename E::Stored*>(into);
  const auto* __restrict b = static_cast<const typename E::Stored*>(from);
  for (std::size_t i = 0; i < count; ++i) a[i] = E::store(Op::of(E::load(a[i]), E::load(b[i])));
}

template <class E, class Finish>
TUTTI_INLINE void finish_loop(void* data, std::size_t count, Finish finish) {
  auto* __restrict a = static_cast<typename E::Stored*>(data);
  for (std::size_t i = 0; i < count; ++i) a[i] = E::store(finish(E::load(a[i])));
}

template <class E, class Op, class Finish>
TUTTI_INLINE void pair_loop(void* first, void* second, std::size_t count, Finish finish) {
  auto* __restrict a = static_cast<typename E::Stored*>(first);
  auto* __restrict b = static_cast<typename E::Stored*>(second);
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = E::store(finish(Op::of(E::load(a[i]), E::load(b[i]))));
    a[i] = x;
    b[i] = x;
  }
}

template <class E, class Finish>
TUTTI_INLINE void quad_loop(std::span<void* const> buffers, std::size_t count, Finish finish) {
  using Stored = typename E::Stored;
  auto* __restrict a = static_cast<Stored*>(buffers[0]);
  auto* __restrict b = static_cast<Stored*>(buffers[1]);
  auto* __restrict c = static_cast<Stored*>(buffers[2]);
  auto* __restrict d = static_cast<Stored*>(buffers[3]);
  for (std::size_t i = 0; i < count; ++i) {
    const auto ab = Sum::of(E::load(a[i]), E::load(b[i]));
    const auto abc = Sum::of(ab, E::load(c[i]));
    const Stored x = E::store(finish(Sum::of(abc, E::load(d[i]))));
    a[i] = x;
    b[i] = x;
    c[i] = x;
    d[i] = x;
  }
}

// Half of a common 32 KiB first-level cache; the other half is for what streams through.
constexpr std::size_t kBlockBytes = std::size_t{16} * 1024;

template <class E, class Op, class Finish>
TUTTI_INLINE void block_loops(std::span<void* const> buffers, std::size_t first, std::size_t count,
                              typename E::Wide* __restrict partial, Finish finish) {
  using Stored = typename E::Stored;
  const auto at = [&](std::size_t k) { return static_cast<Stored*>(buffers[k]) + first; };
  const std::size_t last = buffers.size() - 1;
  auto* __restrict out = at(0);
  const auto* __restrict second = at(1);
  auto* __restrict end = at(last);
  for (std::size_t i = 0; i < count; ++i) partial[i] = Op::of(E::load(out[i]), E::load(second[i]));
  for (std::size_t k = 2; k < last; ++k) {
    const auto* __restrict in = at(k);
    for (std::size_t i = 0; i < count; ++i) partial[i] = Op::of(partial[i], E::load(in[i]));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Stored x = E::store(finish(Op::of(partial[i], E::load(end[i]))));
    out[i] = x;
    end[i] = x;
  }
  for (std::size_t k = 1; k < last; ++k) std::memcpy(at(k), out, count * sizeof(Stored));
}

template <class E, class Op, class Finish>
TUTTI_INLINE void across_loops(std::span<void* const> buffers, std::size_t count, Finish finish) {
  constexpr std::size_t kBlock = kBlockBytes / sizeof(typename E::Wide);
  if (buffers.size() == 1) return finish_loop<E>(buffers[0], count, finish);
  if (buffers.size() == 2) return pair_loop<E, Op>(buffers[0], buffers[1], count, finish);
  // GCC does not vectorise a chain of selections; halves are bound by conversion, not by memory.
  if constexpr (std::is_same_v<Op, Sum> && std::is_same_v<typename E::Stored, typename E::Wide>) {
    if (buffers.size() == 4) return quad_loop<E>(buffers, count, finish);
  }
  alignas(64) std::array<typename E::Wide, kBlock> partial;
  for (std::size_t first = 0; first < count; first += kBlock) {
    block_loops<E, Op>(buffers, first, std::min(kBlock, count - first), partial.data(), finish);
  }
}

// Calls body with the Finish that divides by `divisor`. A product with the reciprocal of a power of two is
// exact, as the quotient is, and one with 1 costs nothing.
template <class W, class Body>
TUTTI_INLINE void with_finish(int divisor, Body body) {
  const bool exact = std::has_single_bit(static_cast<unsigned>(divisor));
  if constexpr (std::is_integral_v<W>) {
    divisor == 1 ? body(Keep<W>{}) : body(Divide<W>{static_cast<W>(divisor)});
  } else {
    exact ? body(Multiply<W>{W{1} / static_cast<W>(divisor)}) : body(Divide<W>{static_cast<W>(divisor)});
  }
}

[[noreturn]] void no_bits(ReduceOp op) {
  check_failed(__FILE__, __LINE__, "an integer type", std::string(name_of(op)));
}

template <class E>
TUTTI_INLINE void combine_with(ReduceOp op, void* into, const void* from, std::size_t count) {
  constexpr bool kHasBits = std::is_integral_v<typename E::Wide>;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return combine_loop<E, Sum>(into, from, count);
    case ReduceOp::min:
      return combine_loop<E, Min>(into, from, count);
    case ReduceOp::max:
      return combine_loop<E, Max>(into, from, count);
    case ReduceOp::product:
      return combine_loop<E, Product>(into, from, count);
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor:
      if constexpr (kHasBits) {
        if (op == ReduceOp::bit_and) return combine_loop<E, BitAnd>(into, from, count);
        if (op == ReduceOp::bit_or) return combine_loop<E, BitOr>(into, from, count);
        return combine_loop<E, BitXor>(into, from, count);
      }
  }
  no_bits(op);
}

template <class E>
TUTTI_INLINE void across_with(ReduceOp op, std::span<void* const> buffers, std::size_t count, int divisor) {
  using W = typename E::Wide;
  constexpr bool kHasBits = std::is_integral_v<W>;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return with_finish<W>(
          divisor, [&](auto finish)
                       __attribute__((always_inline)) { across_loops<E, Sum>(buffers, count, finish); });
    case ReduceOp::min:
      return across_loops<E, Min>(buffers, count, Keep<W>{});
    case ReduceOp::max:
      return across_loops<E, Max>(buffers, count, Keep<W>{});
    case ReduceOp::product:
      return across_loops<E, Product>(buffers, count, Keep<W>{});
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor:
      if constexpr (kHasBits) {
        if (op == ReduceOp::bit_and) return across_loops<E, BitAnd>(buffers, count, Keep<W>{});
        if (op == ReduceOp::bit_or) return across_loops<E, BitOr>(buffers, count, Keep<W>{});
        return across_loops<E, BitXor>(buffers, count, Keep<W>{});
      }
  }
  no_bits(op);
}

template <class E>
TUTTI_INLINE void divide_with(void* data, std::size_t count, int divisor) {
  with_finish<typename E::Wide>(
      divisor, [&](auto finish) __attribute__((always_inline)) { finish_loop<E>(data, count, finish); });
}

struct Kernels {
  void (*combine)(ReduceOp, void*, const void*, std::size_t);
  void (*across)(ReduceOp, std::span<void* const>, std::size_t, int);
  void (*divide)(void*, std::size_t, int);
};

#define TUTTI_KERNELS(name, E)                                                                        \
  TUTTI_SIMD_CLONES void combine_##name(ReduceOp op, void* into, const void* from, std::size_t n) {   \
    combine_with<E>(op, into, from, n);                                                               \
  }                                                                                                   \
  TUTTI_SIMD_CLONES void across_##name(ReduceOp op, std::span<void* const> b, std::size_t n, int d) { \
    across_with<E>(op, b, n, d);                                                                      \
  }                                                                                                   \
  TUTTI_SIMD_CLONES void divide_##name(void* data, std::size_t n, int d) {                            \
    divide_with<E>(data, n, d);                                                                       \
  }                                                                                                   \
  constexpr Kernels k_##name {                                                                        \
    combine_##name, across_##name, divide_##name                                                      \
  }

TUTTI_KERNELS(f32, Plain<float>);
TUTTI_KERNELS(f64, Plain<double>);
TUTTI_KERNELS(i32, Plain<std::int32_t>);
TUTTI_KERNELS(i64, Plain<std::int64_t>);
TUTTI_KERNELS(bf16, Bf16);
TUTTI_KERNELS(f16, F16);

const Kernels& kernels_of(DType type) {
  switch (type) {
    case DType::f32:
      return k_f32;
    case DType::f64:
      return k_f64;
    case DType::i32:
      return k_i32;
    case DType::i64:
      return k_i64;
    case DType::bf16:
      return k_bf16;
    case DType::f16:
      return k_f16;
  }
  check_failed(__FILE__, __LINE__, "a known type", std::to_string(static_cast<int>(type)));
}

}  // namespace

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::product:
      return "product";
    case ReduceOp::bit_and:
      return "bitwise and";
    case ReduceOp::bit_or:
      return "bitwise or";
    case ReduceOp::bit_xor:
      return "bitwise xor";
  }
  return "?";
}

void combine(DType type, ReduceOp op, void* into, const void* from, std::size_t count) {
  kernels_of(type).combine(op, into, from, count);
}

void combine_across(DType type, ReduceOp op, std::span<void* const> buffers, std::size_t count, int divisor) {
  const bool sums = op == ReduceOp::sum || op == ReduceOp::average;
  TUTTI_CHECK(divisor == 1 || (divisor > 1 && sums), "{} divided by {}", name_of(op), divisor);
  if (!buffers.empty()) kernels_of(type).across(op, buffers, count, divisor);
}

void divide(DType type, void* data, std::size_t count, int divisor) {
  TUTTI_CHECK(divisor > 0, "{}", divisor);
  if (divisor > 1) kernels_of(type).divide(data, count, divisor);
}

}  // namespace tutti::collectives
