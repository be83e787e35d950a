// What every transport has in common: messages over one byte stream a peer and direction.
//
// A medium brings three things: put some bytes, take some bytes, and wait until either may go on. Frames,
// sequence numbers, windows, deadlines and the texts of failures are here, once.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "net/stall.h"
#include "net/transport.h"

namespace tutti::net {

// A stream is a row of cache lines: a header of one line before every message, zeros behind it up to the
// next. Kernels copy a message several times slower when it lands a few bytes further in its page than where
// it came from, as it would behind a shorter header (docs/decisions/0004-frames-are-cache-lines.md).
inline constexpr std::size_t kLine = 64;

// Precedes every message on a stream. Both ends know what comes next, so this only ever confirms; it never
// decides how much memory is taken.
struct alignas(kLine) FrameHeader {
  std::uint32_t magic = 0x49545554;  // "TUTI"
  std::uint32_t sequence = 0;
  std::uint64_t length = 0;
  std::array<std::byte, 48> reserved{};
};
static_assert(sizeof(FrameHeader) == kLine);

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

  // Header, payload and padding of a message, or what is left of them.
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

  // As the job counts its ranks.
  Rank in_job(Rank rank) const {
    return options_.job_ranks.empty() ? rank : options_.job_ranks[static_cast<std::size_t>(to_int(rank))];
  }

 private:
  struct Outbound;
  struct Inbound;
  bool advance(Outbound& o);
  bool advance(Inbound& i, const Activity& doing);
  void check_header(const Inbound& i, const Activity& doing) const;

  Rank rank_;
  int world_;
  TransportOptions options_;
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint32_t> turn_{0};   // who is looked at first in wait_for_any
  std::vector<std::uint32_t> sent_;      // messages so far, by peer
  std::vector<std::uint32_t> received_;  // likewise
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
