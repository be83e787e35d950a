// How the numbers that a message speaks of reach the other side.
//
// Where ranks share memory they stay in place: a worker's header says where in the worker's arena its
// gradients lie, and the server reads them there; a server's parameters lie where the layout says
// (ps/layout.h), and workers read them behind a gate (ps/gate.h). Elsewhere numbers follow their header as
// its payload. This class alone knows which of the two it is.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "ps/gate.h"
#include "ps/message.h"

namespace tutti::ps {

// A view of a transport, which outlives it. Thread-safe as the transport is: no two threads receive from one
// peer at a time.
class Payloads {
 public:
  explicit Payloads(net::Transport& transport) : transport_(transport), memory_(transport.peer_memory()) {}

  // Whether numbers stay in place. A message is a header then, which is gone in no time; else it may take as
  // long as the link is slow. Whoever plans for that asks: how much to have under way, who sends it.
  bool in_place() const { return memory_ != nullptr; }

  // A worker's push: writes into `header` where the gradients lie, or how many bytes of them follow. Returns
  // what has to be sent behind the header: nothing, or the gradients. In place they lie in this rank's arena.
  std::span<const std::byte> announce(Header& header, std::span<const float> gradients) const;

  // A server's side of it: the gradients that `header` announces, where they lie in the worker's arena, or
  // received into `arriving`, which grows to hold them. Valid as long as either. Throws ProtocolError if the
  // header announces anything else than this many, or a place outside of the arena; PeerLost, Timeout.
  std::span<const float> receive(Rank worker, const Header& header, std::size_t floats,
                                 std::vector<float>& arriving, const net::Activity& doing) const;
  // Memory for that many that will arrive; none where they stay in place.
  std::vector<float> room_for_arriving(std::size_t floats) const;

  // What a server holds at a place of its memory, to be read while a ReadLock of the gate is held. Nothing
  // where it is out of reach: the server has to send it.
  struct Held {
    Gate& gate;
    std::span<const float> values;
  };
  std::optional<Held> held_by(Rank server, std::size_t memory_at, std::size_t floats) const;

  // Memory for what this rank holds as a server: in its arena, where workers read it, or in `own`. Aligned
  // for gates. Throws RunError if the arena is too small.
  std::span<std::byte> room_to_hold(std::size_t bytes, std::vector<float>& own) const;

 private:
  net::Transport& transport_;
  net::PeerMemory* const memory_;  // none: numbers travel
};

}  // namespace tutti::ps
