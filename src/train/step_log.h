// What a worker's steps took and came to: told step by step, and summed up at the end.
#pragma once

#include <optional>

#include "base/crypto.h"
#include "data/loader.h"
#include "exchange/exchange.h"
#include "train/measure.h"
#include "train/run_context.h"
#include "train/summary.h"

namespace tutti::train {

// One thread calls it. The run outlives it.
class StepLog {
 public:
  explicit StepLog(const RunContext& run) : run_(run) {}

  struct Step {
    const data::Batch& batch;
    Clock::time_point begin;      // it began to wait for its data
    Clock::time_point computing;  // it had them
    Clock::time_point end;
    exchange::ExchangeTimes times{};
    Clock::duration finite_check{};
    std::optional<double> loss{};  // if one was computed
    double lr = 0;
    double gradient_norm = 0;
    std::int64_t steps_done = 0;  // as the exchange counts them
  };
  void add(const Step& step);

  const StepSeries& series() const { return series_; }
  // Bytes, memory, skipped steps and the digest of parameters are for the caller to add. Ends the log.
  RankReport report();

 private:
  const RunContext& run_;
  StepSeries series_;
  Sha256 order_;  // of the samples
};

}  // namespace tutti::train
