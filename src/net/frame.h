// A frame: what a message is on a byte stream, and the tag that protects it on its way.
//
//   ┌──────────────────┬─────────────────────────────┬─────────┐
//   │ header, 64 bytes │ payload                     │ zeros   │   whole cache lines
//   └──────────────────┴─────────────────────────────┴─────────┘
//
// A message is one frame on a plain stream. On one that is authenticated or encrypted it is one or more, each
// of at most kFrameBytes with a tag of its own, so that nothing of a long message is used before it has been
// verified and nothing waits until all of it has come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aes_gcm.h"
#include "net/wire.h"

namespace tutti::net {

// A stream is a row of cache lines. Kernels copy a message several times slower when it lands a few bytes
// further in its page than where it came from, as it would behind a shorter header
// (docs/decisions/0004-frames-are-cache-lines.md).
inline constexpr std::size_t kLine = 64;

// What a frame with a tag holds at most: few enough bytes to stay in a core's cache between the socket, the
// tag and whoever uses them, and to let the link wait little for the first tag; enough that the calls of the
// kernel cost nothing. A frame is a call at each end, and on loopback, where each of them also carries
// acknowledgements, frames of 128 KiB took a third longer than one message without a tag, those of 512 KiB as
// long (docs/decisions/0027-frames-as-long-as-the-cache-allows.md).
inline constexpr std::size_t kFrameBytes = 512 << 10;

// Precedes every frame. Both ends know what comes next, so this only ever confirms; it never decides how much
// memory is taken.
struct alignas(kLine) FrameHeader {
  std::uint32_t magic = 0x49545554;  // "TUTI"
  std::uint32_t sequence = 0;        // of the message, in its direction of its stream
  std::uint64_t length = 0;          // of the message
  std::uint64_t offset = 0;          // of the frame in its message
  AesGcm::Tag tag{};                 // zeros on a plain stream
  std::array<std::byte, 24> reserved{};
};
static_assert(sizeof(FrameHeader) == kLine);

// Header, payload and padding.
constexpr std::size_t framed(std::size_t payload) {
  return sizeof(FrameHeader) + (payload + kLine - 1) / kLine * kLine;
}

// One end of one direction of a connection: counts its frames, and their numbers go into their tags. Under
// the same key the sender's and the receiver's counts run alike, so a tag fits its frame, in its place, and
// no other. Not thread-safe.
class FrameSeal {
 public:
  FrameSeal(const Digest& key, Wire wire) : gcm_(key), encrypts_(wire == Wire::encrypt) {}

  // The sender's: puts the tag of the next frame into its header and returns what travels: the payload itself
  // or, encrypted, memory of the seal's that is good until the next frame.
  std::span<const std::byte> close(FrameHeader& header, std::span<const std::byte> payload);

  // The receiver's: whether the next frame is as it was sent. An encrypted payload is decrypted in place.
  bool open(const FrameHeader& header, std::span<std::byte> payload);

  std::uint64_t frames() const { return frames_; }

 private:
  AesGcm gcm_;
  bool encrypts_;
  std::uint64_t frames_ = 0;
  std::vector<std::byte> encrypted_;
};

}  // namespace tutti::net
