// Collectives of somebody else's library (MPI, Gloo) behind our interface: what such engines have in common.
//
// The library carries out the collectives, by whatever means it has. What it cannot do comes from the job's
// transport: memory that the ranks of a host share, because parameter servers read buffers where they lie;
// who has died; and whether anybody still gets on. So a call ends as it does with the engine "native": with
// PeerLost or Timeout, though the library itself might wait for ever.
//
// After a call has failed the library may still be at work on its buffer. The engine is of no use then, and
// the process is expected to end.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "collectives/collectives.h"
#include "collectives/native.h"
#include "net/stall.h"

namespace tutti::collectives {

class ForeignEngine : public Collectives {
 public:
  // The one engine of this transport, which outlives it. A call is given up when nobody in the job has made
  // progress for `timeout`.
  ForeignEngine(net::Transport& transport, Clock::duration timeout)
      : transport_(transport), timeout_(timeout), native_(transport) {}

  Rank rank() const final { return transport_.rank(); }
  int world() const final { return transport_.world(); }

  std::span<std::byte> allocate(std::size_t bytes) final { return native_.allocate(bytes); }
  Mark mark() const final { return native_.mark(); }
  void release(const Mark& mark) final { native_.release(mark); }

  void all_reduce(Buffer buffer, ReduceOp op, std::string_view label = {}) final;
  void reduce_scatter(Buffer buffer, ReduceOp op, std::string_view label = {}) final;
  void all_gather(Buffer buffer, std::string_view label = {}) final;
  void broadcast(Buffer buffer, Rank root, std::string_view label = {}) final;
  void reduce(Buffer buffer, ReduceOp op, Rank root, std::string_view label = {}) final;
  void barrier(std::string_view label = {}) final;

  void cancel() final;
  // The least that a rank must send for what was asked, on average: libraries do not say what they sent.
  std::uint64_t bytes_sent() const final { return bytes_sent_; }

 protected:
  struct Request {
    Operation operation{};
    Buffer buffer;  // in place
    ReduceOp op{};  // never average: the sum is divided here
    Rank root{};
  };

  // Something that the library is at.
  class Work {
   public:
    virtual ~Work() = default;
    // Whether it is done; blocks for about `at_most`. Throws what the library throws.
    virtual bool wait(Clock::duration at_most) = 0;
  };

  // Begins it, or carries it out and returns null; world() > 1. The buffer stays until the work is done.
  virtual std::unique_ptr<Work> start(const Request& request, const net::Activity& doing) = 0;

  // Waits for what cannot be given up, on another thread than the one that is at it: cancel() does not end
  // it. `over` says whether it is over, and blocks for about so long. Throws PeerLost, Timeout.
  void watch(const std::function<bool(Clock::duration at_most)>& over, const net::Activity& doing);

  // Whether a call has failed, so that the library may be at work still.
  bool failed() const { return failed_; }

 private:
  void run(const Request& request, bool average, std::string_view label);
  void carry_out(const Request& request, const net::Activity& doing);
  void look_for_lost_peer(Clock::duration at_most, const net::Activity& doing);
  Rank whom_all_wait_for(const std::vector<bool>& came) const;

  net::Transport& transport_;
  const Clock::duration timeout_;
  NativeEngine native_;
  std::atomic<bool> cancelled_{false};
  bool failed_ = false;
  std::optional<net::Waiting> gave_up_;  // after a time-out: others must see that this rank had come
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace tutti::collectives
