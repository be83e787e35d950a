// No exchange at all: one worker, its own gradients.
#pragma once

#include "exchange/exchange.h"
#include "exchange/updater.h"

namespace tutti::exchange {

class Local final : public Exchange {
 public:
  Local(grad::Buckets& buckets, Updater& updater) : buckets_(buckets), updater_(updater) {}

  void start(std::int64_t step, bool) override { steps_ = step; }
  void on_gradient(grad::ParamId) override {}
  void finish_step() override {
    for (std::size_t b = 0; b < buckets_.size(); ++b) updater_.apply(b);
    ++steps_;
  }
  std::int64_t steps_done() const override { return steps_; }
  ExchangeTimes times() const override { return {}; }
  std::uint64_t bytes_sent() const override { return 0; }

 private:
  grad::Buckets& buckets_;
  Updater& updater_;
  std::int64_t steps_ = 0;
};

}  // namespace tutti::exchange
