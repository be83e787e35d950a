// Workers that run out of samples before others.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "library/distributed_fixture.h"

namespace tutti::library {
namespace {

// Rank 1 has two steps, rank 0 has six: the last four are rank 0's alone.
TEST(Distributed, AWorkerThatRunsOutNeitherHangsNorSkewsTheOthers) {
  const auto adam = make<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  const auto expected = [&] {
    Net net(1.0);
    const auto optimizer = adam(net->parameters());
    for (int s = 0; s < kSteps; ++s) {
      if (s == 4) optimizer->param_groups()[0].options().set_lr(0.001);
      optimizer->zero_grad();
      loss_of(net, s < 2 ? samples(s, 2) : samples(s, 2).narrow(0, 0, kBatch)).backward();
      optimizer->step();
    }
    return flat(net->parameters());
  }();
  for (const std::string strategy : {"ring", "reduce-broadcast", "ps-sync"}) {
    std::vector<torch::Tensor> results(2);
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Net net(1.0);
      const auto optimizer = adam(net->parameters());
      Distributed training(session, *net, *optimizer, {.strategy = strategy, .uneven_inputs = true});
      const int mine = session.rank() == 0 ? kSteps : 2;
      for (int s = 0; s < mine; ++s) {
        if (s == 4) optimizer->param_groups()[0].options().set_lr(0.001);
        optimizer->zero_grad();
        loss_of(net, samples(s, 2).narrow(0, session.rank() * kBatch, kBatch)).backward();
        training.step();
      }
      training.finish();
      EXPECT_EQ(training.steps(), mine);
      results[static_cast<std::size_t>(session.rank())] = flat(net->parameters()).clone();
    });
    expect_reference(results, expected);
  }
}

// Rank 1 has no samples at all: rank 0 trains as if it were alone, and may be ahead by any number of steps.
TEST(Distributed, WithoutStepAWorkerThatRunsOutNeitherHangsNorSkewsTheOthers) {
  const auto sgd = make<torch::optim::SGD>(torch::optim::SGDOptions(0.05));
  for (const std::string strategy : {"ps-async", "ps-ssp", "hogwild"}) {
    std::vector<torch::Tensor> results(2);
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Net net(1.0);
      const auto optimizer = sgd(net->parameters());
      Distributed training(session, *net, *optimizer,
                           {.strategy = strategy, .staleness = 3, .uneven_inputs = true});
      for (int s = 0; session.rank() == 0 && s < kSteps; ++s) {
        optimizer->zero_grad();
        loss_of(net, samples(s, 1)).backward();
        training.step();
      }
      training.finish();
      results[static_cast<std::size_t>(session.rank())] = flat(net->parameters()).clone();
    });
    SCOPED_TRACE(strategy);
    expect_reference(results, reference(1, sgd));
  }
}

// Rank 1, which shares its host with rank 0, has two steps, and the others have six.
TEST(OnHosts, AWorkerThatRunsOutNeitherHangsNorSkewsTheOthers) {
  const auto adam = make<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  const auto expected = [&] {
    Net net(1.0);
    const auto optimizer = adam(net->parameters());
    for (int s = 0; s < kSteps; ++s) {
      const auto all = samples(s, 4);
      const auto others = torch::cat({all.narrow(0, 0, kBatch), all.narrow(0, 2 * kBatch, 2 * kBatch)});
      optimizer->zero_grad();
      loss_of(net, s < 2 ? all : others).backward();
      optimizer->step();
    }
    return flat(net->parameters());
  }();
  for (const std::string strategy : {"allreduce", "ps-sync"}) {
    std::vector<torch::Tensor> results(4);
    run_sessions_on({0, 0, 1, 1}, [&](Session& session) {
      Net net(1.0);
      const auto optimizer = adam(net->parameters());
      Distributed training(session, *net, *optimizer, {.strategy = strategy, .uneven_inputs = true});
      for (int s = 0; s < (session.rank() == 1 ? 2 : kSteps); ++s) {
        optimizer->zero_grad();
        loss_of(net, samples(s, 4).narrow(0, session.rank() * kBatch, kBatch)).backward();
        training.step();
      }
      training.finish();
      results[static_cast<std::size_t>(session.rank())] = flat(net->parameters()).clone();
    });
    expect_reference(results, expected);
  }
}

}  // namespace
}  // namespace tutti::library
