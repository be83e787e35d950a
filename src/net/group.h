// Some ranks of a job as a job of their own.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "base/error.h"
#include "net/transport.h"

namespace tutti::net {

// The ranks on each host, in ascending order; `hosts` says by rank which it is on.
inline std::map<int, std::vector<Rank>> ranks_by_host(std::span<const int> hosts) {
  std::map<int, std::vector<Rank>> ranks;
  for (std::size_t r = 0; r < hosts.size(); ++r) ranks[hosts[r]].push_back(Rank{static_cast<int>(r)});
  return ranks;
}

// The first few ranks: the workers, where servers stand behind them. The transport outlives the group. Only
// members use it.
class Group final : public Transport {
 public:
  Group(Transport& all, int members) : all_(all), members_(members) {}

  Rank rank() const override { return all_.rank(); }
  int world() const override { return members_; }
  Rank in_job(Rank rank) const override { return all_.in_job(rank); }
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

// Those that are left when others have died, counted from 0 anew. By messages alone: counters in shared
// memory stand where the dead have left them. As above; failures and the board speak of ranks of the job.
class Survivors final : public Transport {
 public:
  // The caller is one of them.
  Survivors(Transport& all, std::vector<Rank> members) : all_(all), members_(std::move(members)) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (members_[i] == all.rank()) rank_ = Rank{static_cast<int>(i)};
    }
    TUTTI_CHECK(to_int(rank_) >= 0, "rank {} is none of the members", to_int(all.rank()));
  }

  Rank rank() const override { return rank_; }
  int world() const override { return static_cast<int>(members_.size()); }
  Rank in_job(Rank rank) const override { return all_.in_job(underneath(rank)); }
  void transfer(std::span<const Outgoing> out, std::span<const Incoming> in, const Activity& doing) override {
    std::vector<Outgoing> all_out(out.begin(), out.end());
    std::vector<Incoming> all_in(in.begin(), in.end());
    for (Outgoing& o : all_out) o.to = underneath(o.to);
    for (Incoming& i : all_in) i.from = underneath(i.from);
    all_.transfer(all_out, all_in, doing);
  }
  std::optional<Rank> wait_for_any(std::span<const Rank> peers, Clock::duration at_most,
                                   const Activity& doing) override {
    std::vector<Rank> there;
    for (const Rank p : peers) there.push_back(underneath(p));
    const auto found = all_.wait_for_any(there, at_most, doing);
    for (std::size_t i = 0; found && i < there.size(); ++i) {
      if (there[i] == *found) return peers[i];
    }
    return std::nullopt;
  }
  const StatusBoard& board() const override { return all_.board(); }
  PeerMemory* peer_memory() override { return nullptr; }
  void cancel() override { all_.cancel(); }

 private:
  Rank underneath(Rank member) const { return members_.at(static_cast<std::size_t>(to_int(member))); }

  Transport& all_;
  const std::vector<Rank> members_;
  Rank rank_{-1};
};

}  // namespace tutti::net
