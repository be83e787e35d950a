// No exchange at all: one worker, its own gradients.
#pragma once

#include "exchange/exchange.h"
#include "exchange/updater.h"
#include "grad/bucket_walk.h"

namespace tutti::exchange {

class Local final : public Exchange {
 public:
  Local(grad::Buckets& buckets, Updater& updater) : updater_(updater), walk_(buckets) {}

  void start(std::int64_t step, bool) override { steps_ = step; }
  void on_gradient(grad::ParamId) override {}
  void finish_phase(std::size_t phase) override {
    walk_.finish_phase(phase, [this](std::size_t bucket) { updater_.apply_own(bucket); });
  }
  void finish_step() override {
    walk_.finish_step([this](std::size_t bucket) { updater_.apply_own(bucket); });
    ++steps_;
  }
  std::int64_t steps_done() const override { return steps_; }
  ExchangeTimes times() const override { return {}; }
  std::uint64_t bytes_sent() const override { return 0; }

 private:
  Updater& updater_;
  grad::BucketWalk walk_;
  std::int64_t steps_ = 0;
};

}  // namespace tutti::exchange
