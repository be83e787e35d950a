// An all-reduce of memory that peers cannot read, through memory that they can: for buffers that are a user's
// own. (Those of Collectives::allocate() lie where peers can read them, and are reduced there.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "collectives/collectives.h"
#include "net/transport.h"

namespace tutti::collectives {

// Every rank has room for it, at the same place of its arena, and one of these. One thread at a time.
class Staging {
 public:
  static constexpr std::size_t kRoom = std::size_t{1536} << 10;
  static constexpr std::size_t kBytes = 64 + kRoom;  // what an arena must hold for it

  // `at` is where in each arena the kBytes begin, a multiple of 64. They are zero at first. The memory
  // outlives it.
  Staging(net::PeerMemory& memory, Rank self, int world, std::size_t at);

  // Every rank calls it with the same count, type and operation. `clock` is the count that all have reached
  // (PeerMemory::advance), each after its last call of this. Blocks, and throws what PeerMemory::await
  // throws; the buffer is then undefined.
  //
  // On return the result is in the buffer, with the same bits on every rank (of a sum of two NaNs only that
  // it is one). The count returned is the one that this rank has reached; others may still read its room
  // until they have reached a later one.
  std::uint64_t all_reduce(const Buffer& buffer, ReduceOp op, std::uint64_t clock,
                           const net::Activity& doing);

 private:
  struct Call;
  enum Way : std::uint32_t { cached, nontemporal };
  static constexpr std::size_t kWays = 2;

  std::uint64_t swap_blocks(Call& call, std::uint64_t clock);
  std::uint64_t add_parts(Call& call, std::uint64_t clock);
  std::byte* room(int rank, std::size_t offset) const;
  std::uint32_t& next_way() const;
  void choose_next(const Call& call);

  net::PeerMemory& memory_;
  const int self_;
  const int world_;
  const std::size_t at_;
  // Of rank 0, which chooses: nanoseconds for a kilobyte, when a way was last used.
  std::array<double, kWays> cost_{};
  std::uint64_t calls_ = 0;
};

}  // namespace tutti::collectives
