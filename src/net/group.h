// The first few ranks of a job as a job of their own: the workers, where servers stand behind them.
#pragma once

#include "net/transport.h"

namespace tutti::net {

// The transport outlives the group. Only members use it.
class Group final : public Transport {
 public:
  Group(Transport& all, int members) : all_(all), members_(members) {}

  Rank rank() const override { return all_.rank(); }
  int world() const override { return members_; }
  void transfer(std::span<const Outgoing> out, std::span<const Incoming> in, const Activity& doing) override {
    all_.transfer(out, in, doing);
  }
  std::optional<Rank> wait_for_any(std::span<const Rank> peers, Clock::duration at_most,
                                   const Activity& doing) override {
    return all_.wait_for_any(peers, at_most, doing);
  }
  const StatusBoard& board() const override { return all_.board(); }
  PeerMemory* peer_memory() override { return all_.peer_memory(); }
  void cancel() override { all_.cancel(); }

 private:
  Transport& all_;
  int members_;
};

}  // namespace tutti::net
