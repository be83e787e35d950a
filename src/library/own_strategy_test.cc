#include "tutti/strategy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/error.h"
#include "library/distributed_fixture.h"

namespace tutti::library {
namespace {

// Begins like rank 0, is told of every step, and ends as it says.
class EachAlone final : public Strategy {
 public:
  explicit EachAlone(Training& training) : training_(training) {}
  void start() override { first_ = training_.parameters(0)[0].item<float>(); }
  void finish_step() override {
    for (int b = 0; b < training_.buckets(); ++b) training_.update(b);
  }
  void finish() override {
    EXPECT_THROW(training_.gradients(training_.buckets()), ConfigError);
    EXPECT_THROW(training_.update(-1), ConfigError);
    for (int b = 0; b < training_.buckets(); ++b) {
      auto parameters = training_.parameters(b);
      training_.workers().broadcast(parameters, 1);
    }
    training_.parameters(0)[0] = first_;
  }

 private:
  Training& training_;
  float first_ = 0;
};

TEST(OwnStrategy, DecidesWhatBecomesOfGradientsAndParameters) {
  add_strategy("each-alone", "nobody hears of the others before the end",
               [](Training& t) { return std::make_unique<EachAlone>(t); });
  const auto sgd = make<torch::optim::SGD>(torch::optim::SGDOptions(0.1));
  const auto replicas = distributed(2, net::Medium::memory, sgd, {.strategy = "each-alone"});
  EXPECT_TRUE(torch::equal(replicas[0], replicas[1]));
  Net net(1.0);
  const auto optimizer = sgd(net->parameters());
  const float first = net->out->bias[0].item<float>();  // backward comes to it first
  for (int s = 0; s < kSteps; ++s) {
    optimizer->zero_grad();
    loss_of(net, samples(s, 2).narrow(0, kBatch, kBatch)).backward();
    optimizer->step();
  }
  const torch::NoGradGuard no_grad;
  net->out->bias[0] = first;
  EXPECT_TRUE(torch::allclose(replicas[0], flat(net->parameters()), 1e-5, 1e-6));
}

TEST(OwnStrategy, NamesAreTakenOnce) {
  const auto nothing = [](Training&) { return nullptr; };
  EXPECT_THROW(add_strategy("ring", "", nothing), ConfigError);
  EXPECT_THROW(add_strategy("own-mean", "", nothing), ConfigError);
  EXPECT_THROW(add_strategy("", "", nothing), ConfigError);
}

TEST(OwnStrategy, OneThatIsNotThereIsSaid) {
  add_strategy("nothing", "", [](Training&) { return nullptr; });
  EXPECT_THROW(distributed(1, net::Medium::memory, make<torch::optim::SGD>(torch::optim::SGDOptions(0.1)),
                           {.strategy = "nothing"}),
               ConfigError);
}

TEST(OwnStrategy, WhatItThrowsStepThrows) {
  struct Fails final : Strategy {
    void finish_step() override { throw std::runtime_error("not today"); }
  };
  add_strategy("fails", "", [](Training&) { return std::make_unique<Fails>(); });
  run_sessions(1, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd, {.strategy = "fails"});
    loss_of(net, samples(0, 1)).backward();
    EXPECT_THROW(training.step(), std::runtime_error);
  });
}

}  // namespace
}  // namespace tutti::library
