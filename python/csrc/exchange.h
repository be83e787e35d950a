// Collectives in shared memory, in two halves: everybody lays down what he brings and goes on; who wants the
// result waits until all have laid down theirs, and reads it.
//
// The first half never blocks, so it can run on the thread of whoever starts a collective. That makes a small
// one asynchronous without another thread: nobody waits for the second half of anybody else.
//
// As in collectives/one_shot.cc there are two places, used in turn: who lays down the next but one has seen
// everybody lay down the next, and so be through with reading this.
//
// What does not fit in a place is reduced by collectives/staged.h, in room of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "collectives/collectives.h"
#include "collectives/staged.h"
#include "net/transport.h"

namespace tutti::torch_backend {

// One thread at a time. Every rank makes the same calls in the same order.
class Exchange {
 public:
  // What a rank may bring at a time, and what the transport's arena must hold.
  static constexpr std::size_t kPlaceBytes = std::size_t{32} << 10;
  static constexpr std::size_t kArenaBytes = 2 * kPlaceBytes + collectives::Staging::kBytes;

  // The transport has peer memory, and nobody else uses its counters.
  explicit Exchange(std::unique_ptr<net::Transport> transport);

  // Where this rank lays down what it brings, before it calls publish(). Not before the last exchange has
  // been awaited here.
  std::span<std::byte> place();
  // Does not block. All ranks must publish the same announcement.
  void publish(const net::Announcement& what);

  // Waits until all have published. Throws PeerLost, Timeout, and ProtocolError where the announcements
  // differ.
  void await_all(const net::Activity& doing);
  // What a rank laid down, this one's own, too; until the next but one publish().
  std::span<const std::byte> place_of(Rank rank) const;

  // An all-reduce of any length. Blocks. Throws as await_all() does.
  void all_reduce(const collectives::Buffer& buffer, collectives::ReduceOp op, const net::Announcement& what);

  void cancel() { transport_->cancel(); }

 private:
  std::span<std::byte> place_of(Rank rank, std::uint64_t number) const;

  const std::unique_ptr<net::Transport> transport_;
  net::PeerMemory& memory_;
  collectives::Staging staging_;
  net::Announcement announced_;
  std::uint64_t number_ = 0;  // how far this rank has come: exchanges, and steps of long ones
};

}  // namespace tutti::torch_backend
