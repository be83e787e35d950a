#include "tutti/distributed.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/error.h"
#include "library/distributed_fixture.h"
#include "library/recognise.h"

namespace tutti::library {
namespace {

namespace nn = torch::nn;

class KeepsStep : public testing::TestWithParam<std::tuple<std::string, int, net::Medium>> {};

INSTANTIATE_TEST_SUITE_P(
    Strategies, KeepsStep,
    testing::Combine(testing::Values("ring", "allreduce", "reduce-broadcast", "ps-sync", "hybrid", kOwnMean),
                     testing::Values(1, 2, 3), testing::Values(net::Medium::memory, net::Medium::sockets)),
    [](const auto& i) {
      std::string name = std::get<0>(i.param) + std::to_string(std::get<1>(i.param)) +
                         (std::get<2>(i.param) == net::Medium::memory ? "memory" : "sockets");
      std::erase(name, '-');
      return name;
    });

TEST_P(KeepsStep, AsOneProcessWithAllSamples) {
  const auto& [strategy, world, medium] = GetParam();
  const auto adam = make<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  expect_reference(distributed(world, medium, adam, {.strategy = strategy}), reference(world, adam));
}

TEST_P(KeepsStep, AlsoWithAnOptimizerThatWeDoNotKnow) {
  const auto& [strategy, world, medium] = GetParam();
  if (strategy == "hybrid") {  // its servers must update
    EXPECT_THROW(
        distributed(world, medium, make<torch::optim::Adam>(torch::optim::AdamOptions(0.01).amsgrad(true)),
                    {.strategy = strategy}),
        ConfigError);
    return;
  }
  const auto amsgrad = make<torch::optim::Adam>(torch::optim::AdamOptions(0.01).amsgrad(true));
  expect_reference(distributed(world, medium, amsgrad, {.strategy = strategy}), reference(world, amsgrad));
}

// A worker's gradient of these samples, as a user computes it.
using Backward = std::function<void(Distributed&, Net&, const torch::Tensor& mine)>;

std::vector<torch::Tensor> distributed_by(int world, net::Medium medium, const std::string& strategy,
                                          const MakeOptimizer& make_optimizer, const Backward& backward) {
  std::vector<torch::Tensor> results(static_cast<std::size_t>(world));
  run_sessions(world, medium, [&](Session& session) {
    Net net(1.0);
    const auto optimizer = make_optimizer(net->parameters());
    Distributed training(session, *net, *optimizer, {.strategy = strategy});
    for (int s = 0; s < kSteps; ++s) {
      backward(training, net, samples(s, world).narrow(0, session.rank() * kBatch, kBatch));
      training.step();
    }
    training.finish();
    results[static_cast<std::size_t>(session.rank())] = flat(net->parameters()).clone();
  });
  return results;
}

TEST_P(KeepsStep, HeldBackGradientsAddUp) {
  const auto& [strategy, world, medium] = GetParam();
  const auto adam = make<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  const auto in_two_passes = [](Distributed& training, Net& net, const torch::Tensor& mine) {
    net->zero_grad();
    {
      const auto held = training.no_sync();
      (loss_of(net, mine.narrow(0, 0, 1)) / 4).backward();
    }
    (loss_of(net, mine.narrow(0, 1, 3)) * 3 / 4).backward();
  };
  expect_reference(distributed_by(world, medium, strategy, adam, in_two_passes), reference(world, adam));
}

// zero_grad of newer libtorch does this by default.
TEST_P(KeepsStep, GradientsSetToNoneComeBackIntoTheirBuckets) {
  const auto& [strategy, world, medium] = GetParam();
  const auto adam = make<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  const auto from_none = [](Distributed&, Net& net, const torch::Tensor& mine) {
    for (auto& p : net->parameters()) p.mutable_grad().reset();
    loss_of(net, mine).backward();
  };
  expect_reference(distributed_by(world, medium, strategy, adam, from_none), reference(world, adam));
}

// With a layer beside the network that a pass may go without. It is built last, and so is in the first
// bucket.
struct WithSideImpl : NetImpl {
  explicit WithSideImpl(double first) : NetImpl(first) {
    side = register_module("side", nn::Linear(6, 3));
    const torch::NoGradGuard no_grad;
    for (auto& p : side->parameters()) p.copy_(torch::linspace(-first, first, p.numel()).cos().view_as(p));
  }
  torch::Tensor loss(const torch::Tensor& x, bool with_side) {
    const auto y = with_side ? forward(x) + side(x) : forward(x);
    return (y - x.narrow(1, 0, 3)).square().mean();
  }
  nn::Linear side{nullptr};
};
TORCH_MODULE(WithSide);

// Every other step one of several workers has no gradient of the side, another one each time.
bool has_side(int step, int rank, int world) {
  return world == 1 || step % 2 == 0 || rank != step / 2 % world;
}

TEST_P(KeepsStep, AParameterThatOneWorkerDoesNotUseNeitherHangsNorSkews) {
  const auto& [strategy, world, medium] = GetParam();
  const torch::optim::AdamOptions adam(0.01);
  const auto expected = [&, world = world] {
    WithSide net(1.0);
    torch::optim::Adam optimizer(net->parameters(), adam);
    for (int s = 0; s < kSteps; ++s) {
      optimizer.zero_grad();
      for (int r = 0; r < world; ++r) {
        const auto x = samples(s, world).narrow(0, r * kBatch, kBatch);
        (net->loss(x, has_side(s, r, world)) / world).backward();
      }
      optimizer.step();
    }
    return flat(net->parameters());
  }();
  std::vector<torch::Tensor> results(static_cast<std::size_t>(world));
  run_sessions(world, medium, [&, &strategy = strategy](Session& session) {
    WithSide net(1.0);
    torch::optim::Adam optimizer(net->parameters(), adam);
    // Buckets are small, so that the side has one of its own, which the others must not overtake.
    Distributed training(session, *net, optimizer, {.strategy = strategy, .bucket_bytes = 64});
    for (int s = 0; s < kSteps; ++s) {
      optimizer.zero_grad();
      const auto x = samples(s, session.size()).narrow(0, session.rank() * kBatch, kBatch);
      net->loss(x, has_side(s, session.rank(), session.size())).backward();
      training.step();
    }
    training.finish();
    results[static_cast<std::size_t>(session.rank())] = flat(net->parameters()).clone();
  });
  expect_reference(results, expected);
}

// Torch's own class, which our loops do not stand in for.
struct TorchsAdam final : torch::optim::Adam {
  using Adam::Adam;
};

// The largest distance in units in the last place; numbers that differ in sign would be far apart.
std::int64_t most_ulps(const torch::Tensor& a, const torch::Tensor& b) {
  const auto place = [](const torch::Tensor& t) { return t.view(torch::kInt32).to(torch::kInt64); };
  return (place(a) - place(b)).abs().max().item<std::int64_t>();
}

// Not the same bits: torch's kernels fuse a multiplication and an addition where the processor can, and ours
// never do, so that they give the same bits on every processor.
TEST(Distributed, OurLoopForAdamIsAFewUlpsFromTorchsOwn) {
  const torch::optim::AdamOptions options(0.01);
  Net net(1.0);
  ASSERT_TRUE(recognise(torch::optim::Adam(net->parameters(), options)).settings) << "ours";
  ASSERT_FALSE(recognise(TorchsAdam(net->parameters(), options)).settings) << "theirs";
  const auto ours = distributed(2, net::Medium::memory, make<torch::optim::Adam>(options), {});
  const auto theirs = distributed(2, net::Medium::memory, make<TorchsAdam>(options), {});
  for (std::size_t rank = 0; rank < ours.size(); ++rank) {
    EXPECT_LE(most_ulps(ours[rank], theirs[rank]), 4) << rank;  // 2 with libtorch 1.13
  }
}

TEST(Distributed, FewerServersThanWorkersAndSmallBuckets) {
  const auto sgd = make<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
  expect_reference(
      distributed(3, net::Medium::memory, sgd, {.strategy = "ps-sync", .servers = 1, .bucket_bytes = 64}),
      reference(3, sgd));
}

TEST(Distributed, WithoutStepEveryGradientCountsAndAllEndEqual) {
  const auto sgd = make<torch::optim::SGD>(torch::optim::SGDOptions(0.05));
  const auto before = flat(Net(1.0)->parameters());
  for (const std::string strategy : {"ps-async", "ps-ssp", "hogwild", "local-sgd", "easgd"}) {
    const auto replicas = distributed(2, net::Medium::memory, sgd, {.strategy = strategy, .sync_every = 2});
    EXPECT_TRUE(torch::equal(replicas[0], replicas[1])) << strategy;
    EXPECT_GT((replicas[0] - before).abs().max().item<float>(), 0.01F) << strategy;
  }
  // One worker alone has no one to be late for.
  for (const std::string strategy : {"ps-async", "ps-ssp", "local"}) {
    expect_reference(distributed(1, net::Medium::memory, sgd, {.strategy = strategy}), reference(1, sgd));
  }
}

TEST(Distributed, GradientsAreClippedByTheNormOfTheirMean) {
  const auto expected = [](int world) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.5);
    for (int s = 0; s < kSteps; ++s) {
      sgd.zero_grad();
      loss_of(net, samples(s, world)).backward();
      nn::utils::clip_grad_norm_(net->parameters(), 0.05);
      sgd.step();
    }
    return flat(net->parameters());
  };
  const auto sgd = make<torch::optim::SGD>(torch::optim::SGDOptions(0.5));
  for (const std::string strategy : {"ring", "ps-sync"}) {
    const DistributedOptions options{.strategy = strategy, .clip_norm = 0.05};
    expect_reference(distributed(2, net::Medium::memory, sgd, options), expected(2));
    expect_reference(distributed_on({0, 0, 1, 1}, sgd, options), expected(4));
  }
}

TEST(Distributed, AHookTakesThePlaceOfTheAllReduce) {
  const auto sgd = make<torch::optim::SGD>(torch::optim::SGDOptions(0.1));
  std::uint64_t bytes[2] = {0, 0};
  for (const bool hooked : {false, true}) {
    std::vector<torch::Tensor> results(2);
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Net net(1.0);
      const auto optimizer = sgd(net->parameters());
      Distributed training(session, *net, *optimizer,
                           {.strategy = "ring", .hook = hooked ? bf16_hook() : nullptr});
      for (int s = 0; s < kSteps; ++s) {
        optimizer->zero_grad();
        loss_of(net, samples(s, 2).narrow(0, session.rank() * kBatch, kBatch)).backward();
        training.step();
      }
      if (session.rank() == 0) bytes[hooked ? 1 : 0] = training.bytes_sent();
      results[static_cast<std::size_t>(session.rank())] = flat(net->parameters()).clone();
    });
    EXPECT_TRUE(torch::equal(results[0], results[1]));
    EXPECT_TRUE(torch::allclose(results[0], reference(2, sgd), 1e-2, 1e-3));
    EXPECT_EQ(torch::allclose(results[0], reference(2, sgd), 1e-6, 1e-7), !hooked);
  }
  EXPECT_EQ(bytes[1] * 2, bytes[0]);
}

struct MakesNan final : Hook {
  void average(Workers&, int, torch::Tensor gradients) override { gradients[0] = NAN; }
};

TEST(Distributed, ANumberThatAHookMadeAndIsNoneIsNamed) {
  EXPECT_THROW(run_sessions(1, net::Medium::memory,
                            [](Session& session) {
                              Net net(1.0);
                              torch::optim::SGD sgd(net->parameters(), 0.1);
                              Distributed training(session, *net, sgd,
                                                   {.hook = std::make_shared<MakesNan>()});
                              loss_of(net, samples(0, 1)).backward();
                              training.step();
                            }),
               NonFinite);
}

TEST(Distributed, ThrownAwayGradientsLeaveNothingBehind) {
  run_sessions(1, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd);
    const auto before = flat(net->parameters()).clone();
    {
      const auto held = training.no_sync();
      loss_of(net, samples(0, 1)).backward();
    }
    for (auto& p : net->parameters()) p.mutable_grad().reset();
    training.step();
    EXPECT_TRUE(torch::equal(flat(net->parameters()), before));
  });
}

TEST(Distributed, TwoModelsInOneProgram) {
  const auto sgd = make<torch::optim::SGD>(torch::optim::SGDOptions(0.1));
  std::vector<torch::Tensor> results(2);
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    Net one(1.0);
    Net two(1.0);
    const auto first = sgd(one->parameters());
    const auto second = sgd(two->parameters());
    Distributed training(session, *one, *first, {.strategy = "ring"});
    Distributed other(session, *two, *second, {.strategy = "ps-sync"});
    for (int s = 0; s < kSteps; ++s) {
      const auto mine = samples(s, 2).narrow(0, session.rank() * kBatch, kBatch);
      (loss_of(one, mine) + loss_of(two, mine)).backward();
      training.step();
      other.step();
    }
    other.finish();
    EXPECT_TRUE(torch::equal(flat(one->parameters()), flat(two->parameters())));
    results[static_cast<std::size_t>(session.rank())] = flat(one->parameters()).clone();
  });
  expect_reference(results, reference(2, sgd));
}

TEST(Distributed, LearningRateIsTheOptimizersOfTheMoment) {
  run_sessions(1, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd);
    const auto before = flat(net->parameters()).clone();
    for (auto& group : sgd.param_groups()) group.options().set_lr(0);
    loss_of(net, samples(0, 1)).backward();
    training.step();
    EXPECT_TRUE(torch::equal(flat(net->parameters()), before));
  });
}

TEST(Distributed, ANumberThatIsNoneIsNamedOrLeftOut) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd, {.skip_nonfinite = true});
    const auto before = flat(net->parameters()).clone();
    auto mine = samples(0, 1);
    if (session.rank() == 1) mine = mine / 0;
    loss_of(net, mine).backward();
    training.step();
    EXPECT_TRUE(torch::equal(flat(net->parameters()), before));
  });
  EXPECT_THROW(run_sessions(1, net::Medium::memory,
                            [](Session& session) {
                              Net net(1.0);
                              torch::optim::SGD sgd(net->parameters(), 0.1);
                              Distributed training(session, *net, sgd);
                              loss_of(net, samples(0, 1) / 0).backward();
                              training.step();
                            }),
               NonFinite);
}

TEST(Distributed, AModelGoesOnWithoutIt) {
  for (const std::string strategy : {"allreduce", "ps-sync", "hogwild"}) {
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Net net(1.0);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      torch::Tensor kept;  // a graph that outlives it
      const bool shared =
          strategy == "hogwild";  // whose graph refers to parameters in memory that is gone then
      {
        Distributed training(session, *net, sgd, {.strategy = strategy});
        loss_of(net, samples(0, 1)).backward();
        training.step();
        kept = loss_of(net, samples(1, 1));
      }
      const auto before = flat(net->parameters()).clone();
      if (!shared) kept.backward();
      net->zero_grad();
      loss_of(net, samples(2, 1)).backward();
      sgd.step();
      EXPECT_FALSE(torch::equal(flat(net->parameters()), before)) << strategy;
    });
  }
}

TEST(Distributed, AHookForgetsAStepThatWasSkipped) {
  for (const auto& make_hook : {+[] { return top_k_hook(0.2); }, +[] { return power_sgd_hook(2); }}) {
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Net net(1.0);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      Distributed training(session, *net, sgd, {.skip_nonfinite = true, .hook = make_hook()});
      for (int s = 0; s < 4; ++s) {
        const auto before = flat(net->parameters()).clone();
        sgd.zero_grad();
        loss_of(net, s == 1 && session.rank() == 1 ? samples(s, 1) / 0 : samples(s, 1)).backward();
        training.step();
        EXPECT_EQ(torch::equal(flat(net->parameters()), before), s == 1) << s;
      }
    });
  }
}

}  // namespace
}  // namespace tutti::library
