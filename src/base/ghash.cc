// How it is computed.
//
// GHASH of blocks X1 ... Xn is X1*K^n + X2*K^(n-1) + ... + Xn*K in the field GF(2^128). With the bytes of a
// block reversed, and the key multiplied by x once, this is POLYVAL of RFC 8452, whose product needs no
// shift: dot(a, b) = a*b*x^-128 is three carry-less products and a reduction that folds the low half twice.
//
//   vector j       | block 4j | block 4j+1 | block 4j+2 | block 4j+3 |     four lanes, each by itself:
//   sum of lane    S = S*K^4 + block, vector by vector
//   at the end     S0*K^4 + S1*K^3 + S2*K^2 + S3*K
//
// Sixteen vectors at a time, S*K^64 + V0*K^60 + ... + V14*K^4 + V15: products are added before they are
// reduced, so a reduction, and the wait for the one before, is paid once for 1024 bytes. What is left to
// bound it are three carry-less products a vector (Karatsuba's), which a core begins every other cycle.
#include "base/ghash.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TUTTI_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,pclmul,vpclmulqdq")))

namespace tutti {
namespace {

// x^127 + x^126 + x^121 + 1: what x^128 is in POLYVAL's field.
constexpr std::uint64_t kHighTerms = 0xc200000000000000;
constexpr std::uint64_t kLowTerms = 1;

// GCC warns of the forms without a mask (its bug 105593).
constexpr __mmask16 kAll = 0xffff;
constexpr __mmask8 kHalves = 0xff;

// Sixteen vectors of four blocks.
constexpr std::size_t kRow = 1024;
constexpr std::size_t kRowVectors = kRow / 64;

// Products of four lanes that have not been reduced: low + middle*x^64 + high*x^128.
struct Product {
  __m512i low;
  __m512i middle;
  __m512i high;
};

TUTTI_WIDE inline __m512i sum3(__m512i a, __m512i b, __m512i c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

// Two factors, and the sums of the halves of their lanes side by side.
struct Pair {
  __m512i first;
  __m512i second;
  __m512i sums;
};

TUTTI_WIDE inline Pair make_pair(__m512i a, __m512i b) {
  return {a, b,
          _mm512_xor_si512(_mm512_maskz_unpacklo_epi64(kHalves, a, b),
                           _mm512_maskz_unpackhi_epi64(kHalves, a, b))};
}

// Adds a.first * b.first + a.second * b.second. The middle is Karatsuba's, with low and high still in it.
TUTTI_WIDE inline void add_products(Product& sum, const Pair& a, const Pair& b) {
  sum.low = sum3(sum.low, _mm512_clmulepi64_epi128(a.first, b.first, 0x00),
                 _mm512_clmulepi64_epi128(a.second, b.second, 0x00));
  sum.middle = sum3(sum.middle, _mm512_clmulepi64_epi128(a.sums, b.sums, 0x00),
                    _mm512_clmulepi64_epi128(a.sums, b.sums, 0x11));
  sum.high = sum3(sum.high, _mm512_clmulepi64_epi128(a.first, b.first, 0x11),
                  _mm512_clmulepi64_epi128(a.second, b.second, 0x11));
}

// Adds to `low` so many multiples of the field's polynomial that its lower half becomes zero, and moves the
// upper one there.
TUTTI_WIDE inline __m512i fold(__m512i low) {
  const __m512i terms = _mm512_set1_epi64(static_cast<long long>(kHighTerms));
  return _mm512_xor_si512(_mm512_alignr_epi8(low, low, 8), _mm512_clmulepi64_epi128(low, terms, 0x00));
}

TUTTI_WIDE inline __m512i reduce(const Product& p) {
  const __m512i low = _mm512_xor_si512(p.low, _mm512_bslli_epi128(p.middle, 8));
  const __m512i high = _mm512_xor_si512(p.high, _mm512_bsrli_epi128(p.middle, 8));
  return _mm512_xor_si512(fold(fold(low)), high);
}

TUTTI_WIDE inline __m512i dot(__m512i a, __m512i b) {
  return reduce({_mm512_clmulepi64_epi128(a, b, 0x00),
                 _mm512_xor_si512(_mm512_clmulepi64_epi128(a, b, 0x01), _mm512_clmulepi64_epi128(a, b, 0x10)),
                 _mm512_clmulepi64_epi128(a, b, 0x11)});
}

// Four blocks with the bytes of each reversed.
TUTTI_WIDE inline __m512i load_blocks(const std::byte* from) {
  const __m512i order =
      _mm512_maskz_broadcast_i32x4(kAll, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  return _mm512_shuffle_epi8(_mm512_loadu_si512(from), order);
}

// One block in the first lane, the others zero; `bytes` of it are given, the rest are zeros.
TUTTI_WIDE inline __m512i load_block(const std::byte* from, std::size_t bytes) {
  alignas(64) std::array<std::byte, 64> padded{};
  std::memcpy(padded.data(), from, bytes);
  return load_blocks(padded.data());
}

TUTTI_WIDE inline __m128i first_lane(__m512i v) {
  alignas(64) __m128i lanes[4];
  _mm512_store_si512(lanes, v);
  return lanes[0];
}

TUTTI_WIDE inline __m512i sum_of_lanes(__m512i v) {
  alignas(64) __m128i lanes[4];
  _mm512_store_si512(lanes, v);
  return _mm512_zextsi128_si512(lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3]);
}

// The key as POLYVAL has it: reversed, times x.
TUTTI_WIDE __m512i first_power(const Ghash::Block& key) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    high = high << 8 | std::to_integer<std::uint64_t>(key[i]);
    low = low << 8 | std::to_integer<std::uint64_t>(key[8 + i]);
  }
  const std::uint64_t carry = high >> 63;
  high = (high << 1 | low >> 63) ^ (carry * kHighTerms);
  low = (low << 1) ^ (carry * kLowTerms);
  return _mm512_zextsi128_si512(_mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low)));
}

TUTTI_WIDE __m512i in_all_lanes(__m512i first) {
  return _mm512_maskz_broadcast_i32x4(kAll, first_lane(first));
}

// Lanes as they stand in memory: the first lane has the first block.
TUTTI_WIDE void store_powers(const Ghash::Block& key, std::byte* lanes, std::byte* broadcast,
                             std::size_t count) {
  const __m512i one = first_power(key);
  const __m512i two = dot(one, one);
  const __m512i three = dot(two, one);
  const __m512i four = dot(three, one);
  for (const __m512i power : {four, three, two, one}) {
    _mm_store_si128(reinterpret_cast<__m128i*>(lanes), first_lane(power));
    lanes += sizeof(__m128i);
  }
  const __m512i step = in_all_lanes(four);
  __m512i power = step;
  for (std::size_t i = 0; i < count; ++i) {
    _mm512_store_si512(broadcast + 64 * i, power);
    power = dot(power, step);
  }
}

TUTTI_WIDE inline __m512i power(const std::byte* broadcast, std::size_t n) {
  return _mm512_load_si512(broadcast + 64 * (n - 1));
}

TUTTI_WIDE inline __m512i add_vector(__m512i sum, const std::byte* at, const std::byte* broadcast) {
  return _mm512_xor_si512(dot(sum, power(broadcast, 1)), load_blocks(at));
}

// All whole rows of sixteen vectors; what is left is the caller's.
TUTTI_WIDE __m512i add_rows(__m512i sum, std::span<const std::byte> rows, const std::byte* broadcast) {
  Pair powers[kRowVectors / 2];
  for (std::size_t i = 0; i < kRowVectors / 2; ++i) {
    powers[i] = make_pair(power(broadcast, kRowVectors - 2 * i), power(broadcast, kRowVectors - 2 * i - 1));
  }
  const __m512i zero = _mm512_setzero_si512();
  for (; rows.size() >= kRow; rows = rows.subspan(kRow)) {
    const std::byte* const row = rows.data();
    Product all{zero, zero, zero};
#pragma GCC unroll 7
    for (std::size_t i = 1; i < kRowVectors / 2; ++i) {
      add_products(all, make_pair(load_blocks(row + 64 * (2 * i - 1)), load_blocks(row + 128 * i)),
                   powers[i]);
    }
    // The sum comes last: what does not wait for it is done while the row before is reduced.
    add_products(all, make_pair(sum, load_blocks(row)), powers[0]);
    all.middle = sum3(all.middle, all.low, all.high);
    sum = _mm512_xor_si512(reduce(all), load_blocks(row + kRow - 64));
  }
  return sum;
}

TUTTI_WIDE Ghash::Block hash(const std::byte* lanes, const std::byte* broadcast,
                             std::span<const std::byte> header, std::span<const std::byte> payload) {
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t i = 0; i < header.size(); i += 64) sum = add_vector(sum, header.data() + i, broadcast);
  const std::size_t in_rows = payload.size() / kRow * kRow;
  if (in_rows > 0) sum = add_rows(sum, payload, broadcast);
  const std::byte* at = payload.data() + in_rows;
  std::size_t left = payload.size() - in_rows;
  for (; left >= 64; at += 64, left -= 64) sum = add_vector(sum, at, broadcast);
  sum = sum_of_lanes(dot(sum, _mm512_load_si512(lanes)));

  const __m512i key = _mm512_zextsi128_si512(_mm_load_si128(reinterpret_cast<const __m128i*>(lanes + 48)));
  while (left > 0) {
    const std::size_t n = std::min<std::size_t>(left, 16);
    sum = dot(_mm512_xor_si512(sum, load_block(at, n)), key);
    at += n;
    left -= n;
  }
  // The last block: how many bits were readable, and that none were encrypted.
  const std::uint64_t bits = 8 * (header.size() + payload.size());
  const __m512i lengths = _mm512_zextsi128_si512(_mm_set_epi64x(static_cast<long long>(bits), 0));
  sum = dot(_mm512_xor_si512(sum, lengths), key);

  alignas(64) std::array<std::byte, 64> out;
  _mm512_store_si512(out.data(), sum);
  Ghash::Block block;
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = out[block.size() - 1 - i];
  return block;
}

}  // namespace

bool Ghash::is_supported() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
}

Ghash::Ghash(const Block& key) {
  TUTTI_CHECK(is_supported());
  store_powers(key, lanes_.bytes.data(), broadcast_.front().bytes.data(), broadcast_.size());
}

Ghash::Block Ghash::operator()(std::span<const std::byte> header, std::span<const std::byte> payload) const {
  TUTTI_CHECK(header.size() % kVector == 0);
  return hash(lanes_.bytes.data(), broadcast_.front().bytes.data(), header, payload);
}

}  // namespace tutti

#else

namespace tutti {

bool Ghash::is_supported() {
  return false;
}

Ghash::Ghash(const Block&) : lanes_{}, broadcast_{} {
  TUTTI_CHECK(is_supported());
}

Ghash::Block Ghash::operator()(std::span<const std::byte>, std::span<const std::byte>) const {
  return {};
}

}  // namespace tutti

#endif
