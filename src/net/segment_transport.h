// The transport of ranks that share memory: `shm` (processes of one host) and `inproc` (threads of one
// process). Both are this class; they differ only in how a rank's death is noticed, and both ways are always
// watched: a rank that leaves says so in its seat, and a process that is killed is seen through its pidfd.
#pragma once

#include <memory>

#include "net/segment.h"
#include "net/stream_transport.h"

namespace tutti::net {

class SegmentTransport final : public StreamTransport, public PeerMemory {
 public:
  // Takes rank's seat and waits until all others are taken. Throws Timeout, RunError if the seat is taken
  // already.
  SegmentTransport(std::shared_ptr<const Segment> segment, Rank rank, const TransportOptions& options = {});
  ~SegmentTransport() override;  // leaves the seat: peers that still wait for this rank get PeerLost
  SegmentTransport(const SegmentTransport&) = delete;
  SegmentTransport& operator=(const SegmentTransport&) = delete;

  PeerMemory* peer_memory() override { return this; }
  void cancel() override;

  std::span<std::byte> arena(Rank owner) override { return segment_->arena(owner); }
  void advance(std::uint64_t count) override;
  void await(Rank peer, std::uint64_t count, const Activity& doing) override;
  void announce(std::uint64_t number, const Announcement& next) override;
  Announcement announced(Rank peer, std::uint64_t number) override;
  Rank in_job(Rank rank) const override { return StreamTransport::in_job(rank); }

 private:
  std::size_t put(Rank to, const Parts& parts) override;
  std::size_t take(Rank from, std::span<std::byte> into) override;
  bool readable(Rank from) override;
  void wait(const Interest& interest, Clock::duration at_most) override;
  std::optional<Rank> lost_peer(const Interest& interest) override;

  void take_seat();
  void ring(Rank whom) const;
  void ring_all() const;
  bool left(Rank peer) const;  // said goodbye
  bool died(Rank peer) const;  // without saying so
  bool gone(Rank peer) const;  // either
  std::optional<Rank> killed_peer() const;
  template <typename Ready>
  void sleep_until(const Ready& ready, Clock::duration at_most) const;

  std::shared_ptr<const Segment> segment_;
  Seat& seat_;
  std::vector<UniqueFd> pidfds_;  // of the peers, by rank; none for ranks of this process
};

}  // namespace tutti::net
