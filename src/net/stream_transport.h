// What every transport has in common: messages over one byte stream a peer and direction.
//
// A medium brings three things: put some bytes, take some bytes, and wait until either may go on. Frames
// (net/frame.h), their tags, sequence numbers, windows, deadlines and the texts of failures are here, once.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "net/frame.h"
#include "net/stall.h"
#include "net/transport.h"

namespace tutti::net {

struct TransportOptions {
  // A wait is given up when nobody in the job has made progress for so long (net/stall.h).
  Clock::duration timeout = std::chrono::seconds(30);
  // Whether each rank has a core to itself. A wait then spins for a moment before it sleeps; else it gives
  // the core to whoever it waits for.
  bool own_core = false;
  // Whether a rank's death ends only what waits for it, and not every operation of everybody.
  bool survives_peers = false;
  // The job's; a transport that is given none makes one for itself.
  std::shared_ptr<const StatusBoard> board = nullptr;
  // By rank of this transport, its rank in the job, which the board and failures speak of. Empty: they are
  // the same.
  std::vector<Rank> job_ranks = {};
};

// For ranks that are not pinned: each of `world` has a core if there are as many.
TransportOptions unpinned_options(int world, Clock::duration timeout);

class StreamTransport : public Transport {
 public:
  StreamTransport(Rank rank, int world, TransportOptions options);
  ~StreamTransport() override { board().leave(in_job(rank_)); }
  StreamTransport(const StreamTransport&) = delete;
  StreamTransport& operator=(const StreamTransport&) = delete;

  Rank rank() const final { return rank_; }
  int world() const final { return world_; }
  Rank in_job(Rank rank) const override {
    return options_.job_ranks.empty() ? rank : options_.job_ranks[static_cast<std::size_t>(to_int(rank))];
  }
  void transfer(std::span<const Outgoing> out, std::span<const Incoming> in, const Activity& doing) final;
  std::optional<Rank> wait_for_any(std::span<const Rank> peers, Clock::duration at_most,
                                   const Activity& doing) final;
  const StatusBoard& board() const final { return *options_.board; }
  void cancel() override;

 protected:
  // Which streams a waiting call would go on with.
  struct Interest {
    std::vector<Rank> to_read;
    std::vector<Rank> to_write;
  };

  // From now on every frame to and from this peer carries a tag, and none that does not fit its tag is used.
  // Both ends do so with the same wire and frame size, under keys that fit each other.
  void protect(Rank peer, const SessionKeys& keys, Wire wire, std::size_t frame_bytes = kFrameBytes);

  // Header, payload and padding of a frame, or what is left of them.
  using Parts = std::array<std::span<const std::byte>, 3>;

  // Each moves what it can without blocking and returns how much, maybe 0. A closed stream counts as 0; the
  // medium says so in lost_peer().
  virtual std::size_t put(Rank to, const Parts& parts) = 0;
  virtual std::size_t take(Rank from, std::span<std::byte> into) = 0;

  // Whether take() would bring something.
  virtual bool readable(Rank from) = 0;

  // Blocks until a stream of interest may go on, something has happened to a peer, or `at_most` has passed.
  virtual void wait(const Interest& interest, Clock::duration at_most) = 0;

  // A peer that is known to be gone, if any; `interest` names whom we depend on most.
  virtual std::optional<Rank> lost_peer(const Interest& interest) = 0;

  // Asks ready() for a moment, as options say; false if it is time to sleep.
  template <typename Ready>
  bool spin_until(const Ready& ready) const;

  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  bool survives_peers() const { return options_.survives_peers; }

  // Throws RunError if cancel() was called.
  void check_cancelled(const Activity& doing) const;

  // A wait for peers that has come to sleeping.
  struct Wait {
    explicit Wait(const StreamTransport& t) : Wait(t, t.options_.timeout) {}
    Wait(const StreamTransport& t, Clock::duration timeout)
        : shown(t.board(), t.in_job(t.rank_)), stall(t.board(), timeout) {}
    Waiting shown;
    Stall stall;
  };

  // Ends a wait for `peer`: throws if it was cancelled, if the peer is lost or if the job stands still. How
  // long the caller may sleep before it asks again is the result.
  Clock::duration check_wait(Rank peer, std::optional<Rank> lost, Wait& wait, const Activity& doing) const;

  // How long to wait for ranks that have not come yet.
  Clock::duration time_to_start() const { return std::max<Clock::duration>(options_.timeout, kTimeToStart); }

  // This rank has got something done.
  void note_progress() const { board().advance(in_job(rank_)); }

 private:
  struct Outbound;
  struct Inbound;
  // One peer's, where its frames carry tags.
  struct Seals {
    Seals(const SessionKeys& keys, Wire wire)
        : outgoing(keys.sending, wire), incoming(keys.receiving, wire) {}
    FrameSeal outgoing;
    FrameSeal incoming;
  };
  Seals* seals_of(Rank peer) const { return seals_[static_cast<std::size_t>(to_int(peer))].get(); }
  void begin_frame(Outbound& o);
  bool advance(Outbound& o);
  void begin_frame(Inbound& i, std::size_t offset);
  bool advance(Inbound& i, const Activity& doing);
  bool take_payload(Inbound& i);
  void open_frame(Inbound& i, const Activity& doing);
  void take_padding(Inbound& i, const Activity& doing);
  void check_header(const Inbound& i, const Activity& doing) const;

  Rank rank_;
  int world_;
  TransportOptions options_;
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint32_t> turn_{0};         // who is looked at first in wait_for_any
  std::vector<std::uint32_t> sent_;            // messages so far, by peer
  std::vector<std::uint32_t> received_;        // likewise
  std::vector<std::unique_ptr<Seals>> seals_;  // by peer; none: its frames are plain
  std::size_t frame_bytes_ = kFrameBytes;      // of those that are not
};

template <typename Ready>
bool StreamTransport::spin_until(const Ready& ready) const {
  // Some times what falling asleep and being woken would cost.
  constexpr auto kSpin = std::chrono::microseconds(50);
  if (ready()) return true;
  const auto until = Clock::now() + kSpin;
  while (Clock::now() < until) {
    if (!options_.own_core) ::sched_yield();
    for (int i = 0; i < (options_.own_core ? 64 : 1); ++i) {
      if (ready()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
  return ready();
}

}  // namespace tutti::net
