#include "base/nontemporal.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

// Sanitizers do not see such stores.
#if defined(__SSE2__) && !defined(TUTTI_SANITIZED)
#include <emmintrin.h>
#define TUTTI_STREAMS 1
#endif

namespace tutti {
namespace {

#ifdef TUTTI_STREAMS

constexpr std::size_t kLine = 64 / sizeof(float);

std::size_t floats_to_next_line(const float* at) {
  return (0 - reinterpret_cast<std::uintptr_t>(at) / sizeof(float)) % kLine;
}

// Whole lines are streamed, each at once so that it leaves in one piece; what stands before and behind them
// is written plainly. `value(i)` is a 16-byte vector at i, `plain(first, count)` does the rest.
template <typename Value, typename Plain>
void stream(std::span<float> to, const Value& value, const Plain& plain) {
  const std::size_t head = std::min(floats_to_next_line(to.data()), to.size());
  const std::size_t lines = (to.size() - head) / kLine;
  const std::size_t tail = head + lines * kLine;
  plain(0, head);
  for (std::size_t i = head; i < tail; i += kLine) {
    for (std::size_t k = 0; k < kLine; k += 4) _mm_stream_ps(to.data() + i + k, value(i + k));
  }
  _mm_sfence();
  plain(tail, to.size() - tail);
}

#endif

}  // namespace

void copy_nontemporal(std::span<float> to, std::span<const float> from) {
  TUTTI_CHECK(to.size() == from.size());
  const auto plain = [&](std::size_t first, std::size_t count) {
    std::ranges::copy(from.subspan(first, count), to.begin() + static_cast<std::ptrdiff_t>(first));
  };
#ifdef TUTTI_STREAMS
  stream(
      to, [&](std::size_t i) { return _mm_loadu_ps(from.data() + i); }, plain);
#else
  plain(0, to.size());
#endif
}

void clear_nontemporal(std::span<float> to) {
  const auto plain = [&](std::size_t first, std::size_t count) {
    std::ranges::fill(to.subspan(first, count), 0.0F);
  };
#ifdef TUTTI_STREAMS
  stream(
      to, [](std::size_t) { return _mm_setzero_ps(); }, plain);
#else
  plain(0, to.size());
#endif
}

}  // namespace tutti
