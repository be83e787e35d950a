#include "base/nontemporal.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"

// Sanitizers do not see such stores.
#if defined(__SSE2__) && !defined(TUTTI_SANITIZED)
#include <emmintrin.h>
#define TUTTI_STREAMS 1
#endif

namespace tutti {
namespace {

#ifdef TUTTI_STREAMS

constexpr std::size_t kLine = 64;

// Whole lines are streamed, each at once so that it leaves in one piece; what stands before and behind them
// is written plainly. `value(i)` is a 16-byte vector at i, `plain(first, count)` does the rest.
template <typename Value, typename Plain>
void stream(std::span<std::byte> to, const Value& value, const Plain& plain) {
  const std::size_t to_next_line = (0 - reinterpret_cast<std::uintptr_t>(to.data())) % kLine;
  const std::size_t head = std::min(to_next_line, to.size());
  const std::size_t lines = (to.size() - head) / kLine;
  const std::size_t tail = head + lines * kLine;
  plain(0, head);
  for (std::size_t i = head; i < tail; i += kLine) {
    for (std::size_t k = 0; k < kLine; k += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to.data() + i + k), value(i + k));
    }
  }
  // Such stores are not ordered with others, and the caller may tell somebody next that they are there.
  _mm_sfence();
  plain(tail, to.size() - tail);
}

#endif

}  // namespace

void copy_nontemporal(std::span<std::byte> to, std::span<const std::byte> from) {
  TUTTI_CHECK(to.size() == from.size());
  const auto plain = [&](std::size_t first, std::size_t count) {
    if (count > 0) std::memcpy(to.data() + first, from.data() + first, count);
  };
#ifdef TUTTI_STREAMS
  const auto load = [&](std::size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + i));
  };
  stream(to, load, plain);
#else
  plain(0, to.size());
#endif
}

void copy_nontemporal(std::span<float> to, std::span<const float> from) {
  copy_nontemporal(std::as_writable_bytes(to), std::as_bytes(from));
}

void clear_nontemporal(std::span<float> to) {
  const auto bytes = std::as_writable_bytes(to);
  const auto plain = [&](std::size_t first, std::size_t count) {
    if (count > 0) std::memset(bytes.data() + first, 0, count);
  };
#ifdef TUTTI_STREAMS
  stream(
      bytes, [](std::size_t) { return _mm_setzero_si128(); }, plain);
#else
  plain(0, bytes.size());
#endif
}

}  // namespace tutti
