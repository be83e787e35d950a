// Exchanges that average gradients bucket by bucket while backward still computes.
//
//   backward:    [layer 6][layer 5][layer 4][layer 3][layer 2][layer 1]
//   bucket 0:             [ average ]
//   bucket 1:                                 [ average ]
//   bucket 2:                                                   [ average ]
//   finish_step:                                               [waits][update 0][update 1]...
//
// Buckets leave in order, each when it is full (exchange/departures.h). A communication thread averages them;
// finish_step updates the parameters of each bucket as its average comes in.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/collectives.h"
#include "exchange/bucket_walk.h"
#include "exchange/departures.h"
#include "exchange/exchange.h"
#include "exchange/strategy.h"
#include "exchange/updater.h"
#include "observe/trace.h"

namespace tutti::exchange {

class Overlapped final : public Exchange, public Drains, public HasFigures {
 public:
  // Replaces a bucket's buffer by its mean over all ranks, on each rank. Called on the communication thread.
  using Average = std::function<void(collectives::Collectives&, std::size_t bucket, collectives::Buffer,
                                     std::string_view label)>;

  // Makes a bucket's parameters from what its gradients' memory holds after that, and clears it. Called by
  // finish_step.
  using Apply = std::function<void(std::size_t bucket)>;

  // Without `apply` the updater does it. What `parts` refers to outlives the exchange. Between steps the
  // engine may be used by others.
  Overlapped(const Parts& parts, Average average, Apply apply = nullptr);
  ~Overlapped() override;
  Overlapped(const Overlapped&) = delete;
  Overlapped& operator=(const Overlapped&) = delete;

  void start(std::int64_t step, bool with_state) override;
  void on_gradient(grad::ParamId id) override;
  void drain() override;
  void finish_phase(std::size_t phase) override;
  void finish_step() override;
  void finish(Afterwards) override {}
  ExchangeTimes times() const override { return times_; }
  std::uint64_t bytes_sent() const override {
    const std::scoped_lock lock(mutex_);
    return bytes_sent_;
  }

 private:
  void communicate();
  void average(std::size_t bucket);
  void release(std::size_t bucket);
  void wait_for(std::size_t bucket);
  void take_in(std::size_t bucket);

  grad::Buckets& buckets_;
  Updater& updater_;
  collectives::Collectives& all_;
  ShardGradients* const shards_;
  Average average_;
  Apply apply_;
  observe::Trace& trace_;
  Departures departures_;
  BucketWalk walk_{buckets_};
  Clock::duration exposed_{};  // of the step in progress
  ExchangeTimes times_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::size_t released_ = 0;  // buckets [0, released_) may leave
  std::size_t averaged_ = 0;  // buckets [0, averaged_) have come back
  Clock::duration busy_{};
  std::uint64_t bytes_sent_ = 0;
  bool stop_ = false;
  std::exception_ptr failure_;

  std::thread thread_;  // last: starts when all else is there
};

// Averages by one all-reduce, with the engine's algorithm; of shards in the order of their tree.
Overlapped::Average average_by_all_reduce(ShardGradients* shards);

}  // namespace tutti::exchange
