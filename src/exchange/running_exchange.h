// An exchange at work, with everything that can be asked of one: what its class does not offer has a plain
// answer here.
#pragma once

#include <memory>

#include "exchange/exchange.h"

namespace tutti::exchange {

// Calls as exchange/exchange.h says.
class RunningExchange {
 public:
  explicit RunningExchange(std::unique_ptr<Exchange> exchange)
      : exchange_(std::move(exchange)),
        counts_(dynamic_cast<const CountsSteps*>(exchange_.get())),
        drains_(dynamic_cast<Drains*>(exchange_.get())),
        rows_(dynamic_cast<HasRows*>(exchange_.get())),
        state_(dynamic_cast<HasState*>(exchange_.get())),
        figures_(dynamic_cast<const HasFigures*>(exchange_.get())) {}

  void start(std::int64_t step, bool with_state) {
    steps_ = step;
    exchange_->start(step, with_state);
  }
  void on_gradient(grad::ParamId id) { exchange_->on_gradient(id); }
  void finish_phase(std::size_t phase) { exchange_->finish_phase(phase); }
  void finish_step() {
    exchange_->finish_step();
    ++steps_;
  }
  void finish(Afterwards afterwards) { exchange_->finish(afterwards); }

  std::int64_t steps_done() const { return counts_ != nullptr ? counts_->steps_done() : steps_; }
  void drain() {
    if (drains_ != nullptr) drains_->drain();
  }
  TableRows* rows() { return rows_ != nullptr ? rows_->rows() : nullptr; }
  void fetch_state() {
    if (state_ != nullptr) state_->fetch_state();
  }
  std::vector<NamedState> own_state() {
    return state_ != nullptr ? state_->own_state() : std::vector<NamedState>{};
  }
  ExchangeTimes times() const { return figures_ != nullptr ? figures_->times() : ExchangeTimes{}; }
  std::uint64_t bytes_sent() const { return figures_ != nullptr ? figures_->bytes_sent() : 0; }
  std::optional<observe::ServersFigures> by_servers() const {
    return figures_ != nullptr ? figures_->by_servers() : std::nullopt;
  }

 private:
  const std::unique_ptr<Exchange> exchange_;
  const CountsSteps* const counts_;
  Drains* const drains_;
  HasRows* const rows_;
  HasState* const state_;
  const HasFigures* const figures_;
  std::int64_t steps_ = 0;
};

}  // namespace tutti::exchange
