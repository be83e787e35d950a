// Exchanges with parameter servers (src/ps): a bucket's gradients leave when it is full, and its parameters
// come back when the servers have updated them, both while backward goes on.
//
//   backward:    [layer 6][layer 5][layer 4][layer 3][layer 2][layer 1]
//   bucket 0:             [push][update at the servers][pull]
//   bucket 1:                                 [push][update][pull]
//   finish_step:                                                   [waits for the rest]
//
// Where servers take each worker's gradient by itself and it is clipped, or servers update and a step may be
// skipped, all of a phase leaves at its end, when the worker knows all of it. Workers that keep step agree
// then whether it can be used. Embedding tables go by rows.
#pragma once

#include <optional>

#include "collectives/collectives.h"
#include "exchange/bucket_walk.h"
#include "exchange/departures.h"
#include "exchange/exchange.h"
#include "exchange/overlapped.h"
#include "exchange/strategy.h"
#include "exchange/table_rows.h"
#include "ps/connection.h"
#include "ps/piece_client.h"
#include "ps/row_client.h"

namespace tutti::exchange {

// What all servers together have counted.
observe::ServersFigures combine_reports(const std::vector<ps::ServerReport>& reports);

class Servers final : public Exchange,
                      public CountsSteps,
                      public HasRows,
                      public HasState,
                      public HasFigures {
 public:
  // Introduces itself to the servers. What `parts` and `tuning` refer to outlives the exchange.
  Servers(const Parts& parts, const Tuning& tuning);

  void start(std::int64_t step, bool with_state) override;
  void on_gradient(grad::ParamId id) override;
  void finish_phase(std::size_t phase) override;
  void finish_step() override;
  std::int64_t steps_done() const override;
  void fetch_state() override;
  void finish(Afterwards afterwards) override;
  ExchangeTimes times() const override { return times_; }
  std::uint64_t bytes_sent() const override { return connection_.bytes_sent(); }
  std::optional<observe::ServersFigures> by_servers() const override { return combine_reports(reports_); }
  TableRows* rows() override { return parts_.tables.size() > 0 ? &rows_ : nullptr; }

 private:
  void push(std::size_t bucket);
  bool push_held_back(std::size_t end);
  bool decide(std::size_t first, std::size_t end);
  void take_in(std::size_t bucket);
  bool servers_update() const { return options_.role == ps::Role::update; }
  bool holds_back() const {
    return servers_update() && (parts_.updater.clips() || parts_.updater.finite().skips());
  }
  bool keeps_step() const {
    return options_.policy.consistency == ps::Consistency::sync && options_.policy.backup == 0;
  }
  // Versions of a piece that make a step of the model.
  std::int64_t versions_a_step() const;

  void pull_all();
  void meet_at_the_end(std::uint32_t number);

  const Parts parts_;
  const ps::ServerOptions& options_;
  Departures departures_;
  BucketWalk walk_;
  std::int64_t steps_before_ = 0;  // servers that only average count from the start of this run
  Clock::duration exposed_{};      // of the step in progress
  ExchangeTimes times_;
  std::vector<ps::ServerReport> reports_;
  ps::Connection connection_;
  ps::PieceClient pieces_;
  ps::RowClient row_client_;
  TableRows rows_;
};

// Who pushes where the workers of a host do as one: the first of each host. `hosts`: by worker.
std::vector<Rank> pushing_workers(std::span<const int> hosts);
// Whether they do unless somebody says otherwise, because links then carry least: several share one of
// several hosts, and servers need not tell workers or shards apart, look at whole gradients first, or get
// rows of tables instead.
bool push_as_one(const Strategy& strategy, const Tuning& tuning, std::span<const int> hosts, bool has_tables);
// Whether some of these workers share one of several hosts.
bool share_hosts(std::span<const int> hosts);
// All ranks as servers then count them: those workers, the other workers, servers. Empty where ranks are in
// that order already.
std::vector<Rank> pushers_first(std::span<const int> hosts, int servers);

// The same where the workers of a host first form the mean of their gradients in its shared memory: the first
// of them pushes one gradient for all, and what it pulls goes to all. Synchronous.
class AggregatedServers final : public Exchange, public Drains, public HasState, public HasFigures {
 public:
  // As above; there are no tables, and where servers update no step can be skipped. The servers' options know
  // one worker a host, and on the transport these come first (pushers_first). Where they know a single
  // one, all workers share its host; else Collectives::neighbours() are those of a host.
  AggregatedServers(const Parts& parts, const Tuning& tuning);

  void start(std::int64_t step, bool with_state) override;
  void on_gradient(grad::ParamId id) override { inner_.on_gradient(id); }
  void drain() override { inner_.drain(); }
  void finish_phase(std::size_t phase) override { inner_.finish_phase(phase); }
  void finish_step() override { inner_.finish_step(); }
  void fetch_state() override;
  void finish(Afterwards afterwards) override;
  ExchangeTimes times() const override { return inner_.times(); }
  std::uint64_t bytes_sent() const override;
  std::optional<observe::ServersFigures> by_servers() const override { return combine_reports(reports_); }

 private:
  void push_and_pull(std::size_t bucket, collectives::Buffer buffer, std::string_view label);
  void apply(std::size_t bucket);
  float weight() const;
  bool servers_update() const { return options_.role == ps::Role::update; }

  const Parts parts_;
  const ps::ServerOptions& options_;
  collectives::Collectives* const host_;  // the workers of this host; null: this one alone
  // The first worker's of a host.
  std::optional<ps::Connection> connection_;
  std::optional<ps::PieceClient> pieces_;
  std::vector<ps::ServerReport> reports_;
  Overlapped inner_;  // last: its thread uses all of the above
};

}  // namespace tutti::exchange
