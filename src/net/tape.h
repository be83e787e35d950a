// A medium that a test or a fuzzer writes itself: rank 0 of a few, whom all others' bytes come from one tape.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "net/stream_transport.h"

namespace tutti::net {

class Tape final : public StreamTransport {
 public:
  explicit Tape(Clock::duration timeout = std::chrono::milliseconds(300))
      : StreamTransport(Rank{0}, 2, {.timeout = timeout}) {}
  PeerMemory* peer_memory() override { return nullptr; }

  using StreamTransport::protect;

  // As rank 1 would send it, or with another header.
  void record(const FrameHeader& header, std::string_view payload) {
    const std::size_t at = tape.size();
    tape.resize(at + sizeof header + (payload.size() + kLine - 1) / kLine * kLine);
    std::memcpy(tape.data() + at, &header, sizeof header);
    std::memcpy(tape.data() + at + sizeof header, payload.data(), payload.size());
  }
  std::string read(std::size_t length) {
    std::string text(length, '?');
    receive(*this, Rank{1}, std::as_writable_bytes(std::span(text)), {"reading"});
    return text;
  }

  std::vector<std::byte> tape, sent;
  bool ends = false;  // where the tape does, the peer has left

 private:
  std::size_t put(Rank, const Parts& parts) override {
    std::size_t moved = 0;
    for (const auto part : parts) {
      sent.insert(sent.end(), part.begin(), part.end());
      moved += part.size();
    }
    return moved;
  }
  std::size_t take(Rank, std::span<std::byte> into) override {
    const std::size_t n = std::min(into.size(), tape.size());
    std::copy_n(tape.begin(), n, into.begin());
    tape.erase(tape.begin(), tape.begin() + static_cast<std::ptrdiff_t>(n));
    return n;
  }
  bool readable(Rank) override { return !tape.empty(); }
  void wait(const Interest&, Clock::duration) override {}
  std::optional<Rank> lost_peer(const Interest&) override {
    return ends && tape.empty() ? std::optional(Rank{1}) : std::nullopt;
  }
};

}  // namespace tutti::net
