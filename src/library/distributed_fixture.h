// Trainings of the small network by ranks that are threads, and what one process makes of all their samples.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

#include "library/library_fixture.h"
#include "library/net_fixture.h"
#include "tutti/distributed.h"
#include "tutti/strategy.h"

namespace tutti::library {

inline constexpr int kSteps = 6;

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

template <typename Optimizer, typename Options>
MakeOptimizer make(const Options& options) {
  return
      [options](std::vector<torch::Tensor> p) { return std::make_unique<Optimizer>(std::move(p), options); };
}

// One process, the samples of all, torch's own optimizer.
inline torch::Tensor reference(int world, const MakeOptimizer& make_optimizer) {
  Net net(1.0);
  const auto optimizer = make_optimizer(net->parameters());
  for (int s = 0; s < kSteps; ++s) {
    optimizer->zero_grad();
    // Torch leaves out what has no gradient; we do the same arithmetic for all.
    loss_of(net, samples(s, world)).backward();
    optimizer->step();
  }
  return flat(net->parameters());
}

// The same with a worker's share of the samples; its parameters in the end.
inline torch::Tensor train(Session& session, const MakeOptimizer& make_optimizer,
                           const DistributedOptions& options) {
  Net net(session.rank() == 0 ? 1.0 : 2.0);
  const auto optimizer = make_optimizer(net->parameters());
  Distributed training(session, *net, *optimizer, options);
  for (int s = 0; s < kSteps; ++s) {
    optimizer->zero_grad();
    loss_of(net, samples(s, session.size()).narrow(0, session.rank() * kBatch, kBatch)).backward();
    training.step();
  }
  training.finish();
  EXPECT_EQ(training.steps(), kSteps);
  return flat(net->parameters()).clone();
}

// By rank.
inline std::vector<torch::Tensor> distributed(int world, net::Medium medium,
                                              const MakeOptimizer& make_optimizer,
                                              const DistributedOptions& options) {
  std::vector<torch::Tensor> results(static_cast<std::size_t>(world));
  run_sessions(world, medium, [&](Session& session) {
    results[static_cast<std::size_t>(session.rank())] = train(session, make_optimizer, options);
  });
  return results;
}

inline std::vector<torch::Tensor> distributed_on(const std::vector<int>& hosts,
                                                 const MakeOptimizer& make_optimizer,
                                                 const DistributedOptions& options) {
  std::vector<torch::Tensor> results(hosts.size());
  run_sessions_on(hosts, [&](Session& session) {
    results[static_cast<std::size_t>(session.rank())] = train(session, make_optimizer, options);
  });
  return results;
}

inline void expect_reference(const std::vector<torch::Tensor>& replicas, const torch::Tensor& expected) {
  for (const auto& r : replicas) {
    EXPECT_TRUE(torch::equal(r, replicas[0]));
    EXPECT_TRUE(torch::allclose(r, expected, 1e-5, 1e-6)) << (r - expected).abs().max();
  }
}

// The mean of all gradients as a user would write it.
class OwnMean final : public Strategy {
 public:
  explicit OwnMean(Training& training) : training_(training) {}

  void on_gradients(int bucket) override {
    EXPECT_EQ(bucket, seen_++);
    auto gradients = training_.gradients(bucket);
    training_.workers().all_reduce(gradients);
  }
  void finish_step() override {
    EXPECT_EQ(seen_, training_.buckets());
    seen_ = 0;
    for (int b = 0; b < training_.buckets(); ++b) training_.update(b);
  }

 private:
  Training& training_;
  int seen_ = 0;
};

inline const char* const kOwnMean = [] {
  add_strategy("own-mean", "all-reduce, by hand", [](Training& t) { return std::make_unique<OwnMean>(t); });
  return "own-mean";
}();

}  // namespace tutti::library
