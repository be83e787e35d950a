// Dense gradients by all-reduce, rows of embedding tables by servers, both while backward goes on.
//
//   backward:    [layer 4][layer 3][layer 2][embedding]
//   bucket 0:             [ average ]
//   bucket 1:                               [ average ]
//   table:                                  [push rows][update][pull the next step's rows]
//   finish_step:                            [waits for the rows][waits][update 0][update 1]
//
// Where a step may be skipped, rows wait until all buckets are averaged: both are used, or neither.
//
// Which parameter goes which way is decided by exchange/router.h.
#pragma once

#include "exchange/exchange.h"
#include "exchange/overlapped.h"
#include "exchange/strategy.h"
#include "exchange/table_rows.h"
#include "ps/connection.h"
#include "ps/row_client.h"

namespace tutti::exchange {

class Hybrid final : public Exchange, public Drains, public HasRows, public HasState, public HasFigures {
 public:
  // Introduces itself to the servers. `parts` and `tuning` outlive it.
  Hybrid(const Parts& parts, const Tuning& tuning);

  void start(std::int64_t step, bool with_state) override;
  void on_gradient(grad::ParamId id) override { dense_.on_gradient(id); }
  void drain() override { dense_.drain(); }
  void finish_phase(std::size_t phase) override { dense_.finish_phase(phase); }
  void finish_step() override;
  void fetch_state() override;
  void finish(Afterwards afterwards) override;
  ExchangeTimes times() const override { return times_; }
  std::uint64_t bytes_sent() const override { return dense_.bytes_sent() + connection_.bytes_sent(); }
  std::optional<observe::ServersFigures> by_servers() const override;
  TableRows* rows() override { return has_tables_ ? &rows_ : nullptr; }

 private:
  void take_in(std::size_t bucket);
  void agree_about_rows();

  const bool has_tables_;
  grad::Buckets& buckets_;
  Updater& updater_;
  collectives::Collectives& workers_;
  observe::Trace& trace_;
  ps::Connection connection_;
  ps::RowClient row_client_;
  TableRows rows_;
  ExchangeTimes times_;
  std::vector<ps::ServerReport> reports_;
  Overlapped dense_;
};

}  // namespace tutti::exchange
