// No exchange at all: one worker, its own gradients.
#pragma once

#include "exchange/exchange.h"
#include "exchange/updater.h"

namespace tutti::exchange {

class Local final : public Exchange {
 public:
  Local(grad::Buckets& buckets, Updater& updater) : buckets_(buckets), updater_(updater) {}

  void on_gradient(grad::ParamId) override {}
  void finish_step() override {
    for (std::size_t b = 0; b < buckets_.size(); ++b) updater_.apply(b);
  }
  ExchangeTimes times() const override { return {}; }

 private:
  grad::Buckets& buckets_;
  Updater& updater_;
};

}  // namespace tutti::exchange
