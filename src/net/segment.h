// The memory that the ranks of one host share, and its layout.
//
//   | header | seat of rank 0 | seat 1 | ... | channel 0->0 | 0->1 | ... | arena 0 | arena 1 | ... |
//
// A *seat* is where a rank tells the others about itself: alive or gone, how far it has come, and the bell
// that it sleeps by. A *channel* is a ring of bytes from one rank to another with one writer and one reader.
// An *arena* is the rank's own memory, which all others can read and write (PeerMemory in transport.h).
//
// Between processes the memory is an anonymous file that the launcher makes and every worker inherits; it has
// no name, so nothing stays behind however the job ends. Between threads it is the same file, mapped once.
// Pages that nobody touches cost nothing, so arenas are generous.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/file.h"
#include "base/rank.h"

namespace tutti::net {

enum class SeatState : std::uint32_t { empty, taken, left };

struct alignas(64) Seat {
  std::atomic<SeatState> state{SeatState::empty};
  std::atomic<std::int32_t> pid{0};
  // The bell: whoever changes something that this rank may be waiting for rings it, if somebody sleeps.
  alignas(64) std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint32_t> sleepers{0};
  // How far the rank has come, and the last two works that it announced, see PeerMemory. All on one line: who
  // has waited for the first has the rest at hand.
  alignas(64) std::atomic<std::uint64_t> progress{0};
  struct Work {
    std::atomic<std::uint64_t> what{0};
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> place{0};
  } works[2];
};
static_assert(sizeof(Seat) == 192);

struct Channel {
  static constexpr std::size_t kCapacity = 256 << 10;
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> taken{0};
  alignas(64) std::byte ring[kCapacity];
};

// Thread-safe: it only hands out addresses.
class Segment {
 public:
  static constexpr std::size_t kDefaultArena = std::size_t{16} << 30;

  // A fresh one for `world` ranks. Throws RunError.
  static Segment create(int world, std::size_t arena_bytes = kDefaultArena);
  // The one behind an inherited descriptor. Throws RunError if it is none.
  static Segment open(UniqueFd fd);

  int fd() const { return fd_.get(); }
  int world() const;
  Seat& seat(Rank rank) const;
  Channel& channel(Rank from, Rank to) const;
  std::span<std::byte> arena(Rank rank) const;

 private:
  struct Header;
  Segment(UniqueFd fd, std::size_t bytes);
  Header& header() const;

  UniqueFd fd_;
  Mapping mapping_;
};

}  // namespace tutti::net
