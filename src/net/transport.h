// Ordered, reliable messages between the ranks of a job.
//
// One interface, four media: ranks that are threads (inproc), processes of one host (shm) and processes
// anywhere (tcp; mpi, in src/mpi/transport.h). They are held to one contract, src/net/transport_contract.h:
//   - messages from a to b arrive complete, in order, once;
//   - every blocking call ends: with its work done, or, when no rank of the job makes progress for the
//   transport's time-out (net/stall.h), with Timeout, or, when a peer's process or connection is gone, at
//   once with PeerLost;
//   - a length that differs between the two ends is a ProtocolError, found before any byte of it is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/rank.h"
#include "net/status_board.h"

namespace tutti::net {

// What a rank is doing, for the text of a failure: {"all-reduce", "bucket 2, step 17"}.
struct Activity {
  std::string_view operation;
  std::string_view label = {};
  std::string text() const;
};

struct Outgoing {
  Rank to{};
  std::span<const std::byte> bytes;
};

// A message of `length` bytes. Without `consume`, `into` takes all of it. With `consume`, `into` is a window:
// consume(offset, piece) is called, in order, each time it is full and at the end, and the window is used
// again. Where frames carry tags the pieces are frames, each verified before it is handed on, and a window
// holds at least one: kFrameBytes of net/frame.h, or the whole message.
struct Incoming {
  Rank from{};
  std::span<std::byte> into;
  std::size_t length = 0;
  std::function<void(std::size_t offset, std::span<const std::byte> piece)> consume = {};
};

// Memory of all ranks of one host, mapped by each of them; an optional power of a transport.
//
// Every rank owns one arena of equal size and layout, so a buffer at some offset of one rank's arena has its
// counterpart at the same offset of each other's. Ranks keep step by counters: advance() publishes that this
// rank has reached a count, await() waits for a peer to reach it. Writes before advance() are seen after
// await().
//
// Nothing in memory says what it is or how long. So a rank announces what it is about to do before it
// advances to do it, and whoever has waited for that holds the announcement against its own. What the words
// mean is the caller's affair. Works are numbered; the announcements of the last two stay to be read.
struct Announcement {
  std::uint64_t what = 0;
  std::uint64_t count = 0;
  std::uint64_t place = 0;
  bool operator==(const Announcement&) const = default;
};

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  virtual std::span<std::byte> arena(Rank owner) = 0;
  virtual void advance(std::uint64_t count) = 0;
  virtual void await(Rank peer, std::uint64_t count, const Activity& doing) = 0;
  virtual void announce(std::uint64_t number, const Announcement& next) = 0;
  virtual Announcement announced(Rank peer, std::uint64_t number) = 0;
  virtual Rank in_job(Rank rank) const = 0;  // as failures name it
};

// Several threads may call a transport as long as no two of them send to one peer, or receive from one peer,
// at a time. cancel() may come from any thread.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual Rank rank() const = 0;
  virtual int world() const = 0;

  // The rank in the job of a rank of this transport: as failures and the board name it.
  virtual Rank in_job(Rank rank) const { return rank; }

  // Moves all these messages, each way at once; returns when all have left (their memory may be reused) and
  // all have arrived. At most one message a peer in each direction. Throws PeerLost, Timeout, ProtocolError.
  virtual void transfer(std::span<const Outgoing> out, std::span<const Incoming> in,
                        const Activity& doing) = 0;

  // Blocks until a message of one of these peers has begun to arrive, and says whose; nothing if `at_most`
  // passes first. Peers take turns. Throws PeerLost.
  virtual std::optional<Rank> wait_for_any(std::span<const Rank> peers, Clock::duration at_most,
                                           const Activity& doing) = 0;

  // What all ranks show of themselves. Lives as long as the transport.
  virtual const StatusBoard& board() const = 0;

  // The peers' memory where ranks share a host, else null. Lives as long as the transport.
  virtual PeerMemory* peer_memory() = 0;

  // Ends a blocked call, and all later ones, with a RunError. Thread-safe.
  virtual void cancel() = 0;
};

void send(Transport& transport, Rank to, std::span<const std::byte> bytes, const Activity& doing);
void receive(Transport& transport, Rank from, std::span<std::byte> into, const Activity& doing);

}  // namespace tutti::net
