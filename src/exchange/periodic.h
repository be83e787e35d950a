// Workers that train on their own and synchronise every few steps: local SGD and elastic averaging.
//
//   local-sgd   every H steps everyone's parameters become their mean (Stich 2019).
//   easgd       every H steps worker and centre move towards each other (Zhang, Choromanska, LeCun 2015,
//   synchronous):
//                 x_i <- x_i - a (x_i - centre)     centre <- centre + a sum_i (x_i - centre)
//               At the end every worker has the centre. `a` is the moving rate.
//
// Before the end rank 0 evaluates its own parameters. Parameters and optimizer state are each worker's own,
// so a checkpoint keeps everyone's.
#pragma once

#include "collectives/collectives.h"
#include "exchange/bucket_walk.h"
#include "exchange/exchange.h"
#include "exchange/strategy.h"
#include "exchange/updater.h"
#include "observe/trace.h"

namespace tutti::exchange {

class Periodic : public Exchange, public HasFigures {
 public:
  // All arguments outlive the exchange.
  Periodic(grad::Buckets& buckets, Updater& updater, collectives::Collectives& all, std::int64_t every,
           observe::Trace& trace)
      : buckets_(buckets), updater_(updater), all_(all), trace_(trace), every_(every) {}

  void start(std::int64_t step, bool with_state) override;
  void on_gradient(grad::ParamId) override {}
  void finish_phase(std::size_t phase) override;
  void finish_step() override;
  void finish(Afterwards afterwards) override;
  ExchangeTimes times() const override { return times_; }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }

 protected:
  // Everyone is here. `staging` is the bucket's memory that peers can read; its content is free.
  virtual void synchronise(std::size_t bucket, std::span<float> parameters, std::span<float> staging) = 0;
  // The same after the last step: all replicas are equal on return.
  virtual void agree(std::size_t bucket, std::span<float> parameters, std::span<float> staging) = 0;

  grad::Buckets& buckets_;
  Updater& updater_;
  collectives::Collectives& all_;

 private:
  template <typename Do>
  void at_every_bucket(const Do& act);

  observe::Trace& trace_;
  const std::int64_t every_;
  BucketWalk walk_{buckets_};
  std::int64_t steps_ = 0;
  std::uint64_t bytes_sent_ = 0;
  ExchangeTimes times_;
};

class LocalSgd final : public Periodic {
 public:
  using Periodic::Periodic;

 private:
  void synchronise(std::size_t bucket, std::span<float> parameters, std::span<float> staging) override;
  void agree(std::size_t bucket, std::span<float> parameters, std::span<float> staging) override {
    synchronise(bucket, parameters, staging);
  }
};

class ElasticAveraging final : public Periodic, public HasState {
 public:
  ElasticAveraging(grad::Buckets& buckets, Updater& updater, collectives::Collectives& all,
                   std::int64_t every, double moving_rate, observe::Trace& trace);

  void start(std::int64_t step, bool with_state) override;
  std::vector<NamedState> own_state() override;

 private:
  void synchronise(std::size_t bucket, std::span<float> parameters, std::span<float> staging) override;
  void agree(std::size_t bucket, std::span<float> parameters, std::span<float> staging) override;

  const float rate_;
  std::vector<std::vector<float>> centre_;  // by bucket, the same on every rank
};

}  // namespace tutti::exchange
