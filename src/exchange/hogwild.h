// Processes of one host that update the same parameters without locks (Recht, Re, Wright, Niu 2011).
//
// Everyone's parameters are one memory, rank 0's; gradients and the optimizer's state stay each worker's own.
// Two workers that write one number at once may lose an update; with few writes a step to each, little is
// lost. Gradients are counted for all together: who is fast makes more of them, and a worker that dies leaves
// the rest of its own to the others.
#pragma once

#include <atomic>

#include "collectives/collectives.h"
#include "exchange/bucket_walk.h"
#include "exchange/exchange.h"
#include "exchange/strategy.h"
#include "exchange/updater.h"

namespace tutti::exchange {

class Hogwild final : public Exchange, public CountsSteps {
 public:
  // Throws ConfigError unless the ranks share memory. All arguments outlive the exchange.
  Hogwild(grad::Buckets& buckets, Updater& updater, net::Transport& transport, collectives::Collectives& all,
          Clock::duration timeout);

  void start(std::int64_t step, bool with_state) override;
  void on_gradient(grad::ParamId) override {}
  void finish_phase(std::size_t phase) override;
  void finish_step() override;
  std::int64_t steps_done() const override { return gradients_->load() / all_.world(); }
  void finish(Afterwards afterwards) override;

 private:
  grad::Buckets& buckets_;
  Updater& updater_;
  const net::StatusBoard& board_;
  collectives::Collectives& all_;
  const Clock::duration timeout_;
  std::vector<std::span<float>> shared_;            // by bucket, in rank 0's memory
  std::atomic<std::int64_t>* gradients_ = nullptr;  // of all workers, likewise
  BucketWalk walk_{buckets_};
};

}  // namespace tutti::exchange
