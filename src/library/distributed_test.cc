#include "tutti/distributed.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>

#include "base/error.h"
#include "library/library_fixture.h"
#include "library/net_fixture.h"
#include "library/recognise.h"
#include "tutti/strategy.h"

namespace tutti::library {
namespace {

namespace nn = torch::nn;

constexpr int kSteps = 6;

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

template <typename Optimizer, typename Options>
MakeOptimizer make(const Options& options) {
  return
      [options](std::vector<torch::Tensor> p) { return std::make_unique<Optimizer>(std::move(p), options); };
}

// One process, the samples of all, torch's own optimizer.
torch::Tensor reference(int world, const MakeOptimizer& make_optimizer) {
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
torch::Tensor train(Session& session, const MakeOptimizer& make_optimizer,
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
std::vector<torch::Tensor> distributed(int world, net::Medium medium, const MakeOptimizer& make_optimizer,
                                       const DistributedOptions& options) {
  std::vector<torch::Tensor> results(static_cast<std::size_t>(world));
  run_sessions(world, medium, [&](Session& session) {
    results[static_cast<std::size_t>(session.rank())] = train(session, make_optimizer, options);
  });
  return results;
}

std::vector<torch::Tensor> distributed_on(const std::vector<int>& hosts, const MakeOptimizer& make_optimizer,
                                          const DistributedOptions& options) {
  std::vector<torch::Tensor> results(hosts.size());
  run_sessions_on(hosts, [&](Session& session) {
    results[static_cast<std::size_t>(session.rank())] = train(session, make_optimizer, options);
  });
  return results;
}

void expect_reference(const std::vector<torch::Tensor>& replicas, const torch::Tensor& expected) {
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

const char* const kOwnMean = [] {
  add_strategy("own-mean", "all-reduce, by hand", [](Training& t) { return std::make_unique<OwnMean>(t); });
  return "own-mean";
}();

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

class KeepsStepOnHosts : public testing::TestWithParam<std::tuple<std::string, std::vector<int>>> {};

INSTANTIATE_TEST_SUITE_P(
    Strategies, KeepsStepOnHosts,
    testing::Combine(testing::Values("ring", "allreduce", "reduce-broadcast", "ps-sync", "hybrid", kOwnMean),
                     testing::Values(std::vector{0, 0, 1, 1}, std::vector{0, 1, 0}, std::vector{0, 1, 2})),
    [](const auto& i) {
      std::string name = std::get<0>(i.param) + "_";
      for (const int host : std::get<1>(i.param)) name += std::to_string(host);
      std::erase(name, '-');
      return name;
    });

TEST_P(KeepsStepOnHosts, AsOneProcessWithAllSamples) {
  const auto& [strategy, hosts] = GetParam();
  const auto adam = make<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  expect_reference(distributed_on(hosts, adam, {.strategy = strategy}),
                   reference(static_cast<int>(hosts.size()), adam));
}

// What each of two processes on each of two hosts sends in a step.
std::vector<std::uint64_t> sent_by_servers(DistributedOptions options) {
  options.strategy = "ps-sync";
  options.servers = 1;
  std::vector<std::uint64_t> sent(4);
  run_sessions_on({0, 0, 1, 1}, [&](Session& session) {
    Net net(1.0);
    torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
    Distributed training(session, *net, adam, options);
    const auto backward = [&] { loss_of(net, samples(0, 1)).backward(); };
    if (options.shards == 0) {
      backward();
    } else {
      for ([[maybe_unused]] const int shard : training.shards()) backward();
    }
    training.step();
    training.finish();
    sent[static_cast<std::size_t>(session.rank())] = training.bytes_sent();
  });
  return sent;
}

TEST(OnHosts, ProcessesOfAHostPushAsOne) {
  const auto sent = sent_by_servers({});
  // All send as much inside their host, and the first of each as much again to the server.
  EXPECT_GT(sent[1], 0U);
  EXPECT_EQ(sent, (std::vector{2 * sent[1], sent[1], 2 * sent[1], sent[1]}));
  EXPECT_EQ(sent_by_servers({.clip_norm = 1}), sent) << "of means, too";
}

TEST(OnHosts, ProcessesPushThemselvesWhereTheyMustBeToldApart) {
  for (const DistributedOptions& options :
       {DistributedOptions{.uneven_inputs = true}, {.skip_nonfinite = true}, {.shards = 4}}) {
    const auto sent = sent_by_servers(options);
    EXPECT_GT(sent[0], 0U);
    EXPECT_EQ(sent, std::vector(4, sent[0])) << options.shards << options.uneven_inputs;
  }
  // Means are whole before they are used.
  const auto skipping_means = sent_by_servers({.clip_norm = 1, .skip_nonfinite = true});
  EXPECT_EQ(skipping_means[0], 2 * skipping_means[1]);
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

struct SharedAndFrozenImpl : nn::Module {
  SharedAndFrozenImpl() {
    first = register_module("first", nn::Linear(4, 4));
    again = register_module("again", first.ptr());
    frozen = register_module("frozen", nn::Linear(4, 4));
    for (auto& p : frozen->parameters()) p.set_requires_grad(false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return again(frozen(first(x))); }
  nn::Linear first{nullptr};
  nn::Linear again{nullptr};
  nn::Linear frozen{nullptr};
};
TORCH_MODULE(SharedAndFrozen);

TEST(Distributed, SharedParametersCountOnceAndFrozenOnesBecomeRankZeros) {
  std::mutex alone;  // torch draws first weights from one source
  std::vector<torch::Tensor> results(2);
  std::vector<torch::Tensor> frozen(2);
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    auto net = [&] {
      const std::scoped_lock lock(alone);
      return SharedAndFrozen();
    }();
    torch::optim::SGD sgd(net->first->parameters(), 0.1);
    Distributed training(session, *net, sgd);
    const auto before = flat(net->first->parameters()).clone();
    for (int s = 0; s < 3; ++s) {
      sgd.zero_grad();
      const auto mine = torch::full({2, 4}, static_cast<float>(s + session.rank()));
      net->forward(mine).square().mean().backward();
      training.step();
    }
    const auto r = static_cast<std::size_t>(session.rank());
    results[r] = flat(net->first->parameters()).clone();
    frozen[r] = flat(net->frozen->parameters()).clone();
    EXPECT_FALSE(torch::equal(results[r], before));
  });
  EXPECT_TRUE(torch::equal(results[0], results[1]));
  EXPECT_TRUE(torch::equal(frozen[0], frozen[1]));
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

struct WordsImpl : nn::Module {
  WordsImpl() {
    table = register_module("table", nn::Embedding(50, 4));
    out = register_module("out", nn::Linear(4, 1));
    const torch::NoGradGuard no_grad;
    for (auto& p : parameters()) p.copy_(torch::linspace(-1, 1, p.numel()).view_as(p));
  }
  torch::Tensor forward(const torch::Tensor& words) { return out(table(words).mean(1)); }
  nn::Embedding table{nullptr};
  nn::Linear out{nullptr};
};
TORCH_MODULE(Words);

torch::Tensor words_of(int step, int rank) {
  return (torch::arange(12).view({3, 4}) * (step + 2) + rank * 7) % 50;
}

// A worker's gradient of these words.
using WordsBackward = std::function<void(Distributed&, Words&, const torch::Tensor& words)>;

// Where tables have rows of their own, gradients so computed train as one process alone does.
void expect_words_learned(const WordsBackward& backward) {
  const auto expected = [] {
    Words net;
    torch::optim::SGD sgd(net->parameters(), 0.5);
    for (int s = 0; s < kSteps; ++s) {
      sgd.zero_grad();
      net->forward(torch::cat({words_of(s, 0), words_of(s, 1)})).square().mean().backward();
      sgd.step();
    }
    return flat(net->parameters());
  }();
  for (const std::string strategy : {"ps-sync", "hybrid"}) {
    std::vector<torch::Tensor> results(2);
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Words net;
      torch::optim::SGD sgd(net->parameters(), 0.5);
      Distributed training(session, *net, sgd, {.strategy = strategy});
      for (int s = 0; s < kSteps; ++s) {
        sgd.zero_grad();
        backward(training, net, words_of(s, session.rank()));
        EXPECT_FALSE(net->table->weight.grad().defined()) << "rows have left";
        training.step();
      }
      training.finish();
      results[static_cast<std::size_t>(session.rank())] = flat(net->parameters()).clone();
    });
    SCOPED_TRACE(strategy);
    expect_reference(results, expected);
  }
}

TEST(Distributed, EmbeddingsGoByRows) {
  expect_words_learned([](Distributed&, Words& net, const torch::Tensor& words) {
    net->forward(words).square().mean().backward();
  });
}

TEST(Distributed, HeldBackRowsAddUp) {
  expect_words_learned([](Distributed& training, Words& net, const torch::Tensor& words) {
    {
      const auto held = training.no_sync();
      (net->forward(words.narrow(0, 0, 1)).square().mean() / 3).backward();
    }
    EXPECT_TRUE(net->table->weight.grad().defined()) << "rows have not left";
    (net->forward(words.narrow(0, 1, 2)).square().mean() * 2 / 3).backward();
  });
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

// Whichever of a host's processes has it; where means are formed of hosts' sums, too.
TEST(OnHosts, AStepWithANumberThatIsNoneIsLeftOutByAll) {
  for (const DistributedOptions& options :
       {DistributedOptions{.strategy = "allreduce", .skip_nonfinite = true},
        {.strategy = "ps-sync", .skip_nonfinite = true},
        {.strategy = "ps-sync", .clip_norm = 1, .skip_nonfinite = true}}) {
    run_sessions_on({0, 0, 1, 1}, [&](Session& session) {
      Net net(1.0);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      Distributed training(session, *net, sgd, options);
      const auto before = flat(net->parameters()).clone();
      for (const int step : {0, 1}) {
        sgd.zero_grad();
        loss_of(net, samples(step, 1) / (step == 0 && session.rank() == 3 ? 0 : 1)).backward();
        training.step();
        EXPECT_EQ(torch::equal(flat(net->parameters()), before), step == 0) << options.strategy;
      }
      training.finish();
      EXPECT_TRUE(flat(net->parameters()).isfinite().all().item<bool>());
    });
  }
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

TEST(Distributed, ParametersThatNobodyTrainsBecomeRankZerosToo) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    Net net(session.rank() == 0 ? 1.0 : 2.0);
    torch::optim::SGD head(net->out->parameters(),
                           0.1);  // and the rest wants gradients, but gets none applied
    const Distributed training(session, *net, head);
    const auto all = session.all_gather(flat(net->parameters()));
    EXPECT_TRUE(torch::equal(all[0], all[1]));
  });
}

TEST(Distributed, FrozenParametersMayBeTheOptimizersToo) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    Net net(session.rank() == 0 ? 1.0 : 2.0);
    for (auto& p : net->hidden->parameters()) p.set_requires_grad(false);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd);
    const auto before = flat(net->hidden->parameters()).clone();
    loss_of(net, samples(0, 1)).backward();
    training.step();
    EXPECT_TRUE(torch::equal(flat(net->hidden->parameters()), before));
    const auto all = session.all_gather(flat(net->parameters()));
    EXPECT_TRUE(torch::equal(all[0], all[1]));
  });
}

TEST(Distributed, EmbeddingsThatAreFrozenSharedOrTiedAreRight) {
  struct TiedImpl : nn::Module {
    TiedImpl() {
      table = register_module("table", nn::Embedding(12, 4));
      again = register_module("again", table.ptr());
      frozen = register_module("frozen", nn::Embedding(12, 4));
      alone = register_module("alone", nn::Embedding(12, 4));
      const torch::NoGradGuard no_grad;
      for (auto& p : parameters()) p.copy_(torch::linspace(-1, 1, p.numel()).view_as(p));
      frozen->weight.set_requires_grad(false);
    }
    torch::Tensor loss(const torch::Tensor& words) {
      const auto x = table(words) + frozen(words) + again(words) + alone(words);
      return x.matmul(alone->weight.t()).square().mean();  // as a matrix, too
    }
    nn::Embedding table{nullptr}, again{nullptr}, frozen{nullptr}, alone{nullptr};
  };
  const auto words = [](int rank) { return torch::arange(6) + 3 * rank; };
  const auto expected = [&] {
    TiedImpl net;
    torch::optim::SGD sgd({net.table->weight, net.alone->weight}, 0.5);
    for (int s = 0; s < 3; ++s) {
      sgd.zero_grad();
      ((net.loss(words(0)) + net.loss(words(1))) / 2).backward();
      sgd.step();
    }
    return flat(net.parameters());
  }();
  for (const std::string strategy : {"ps-sync", "hybrid", "ring"}) {
    std::vector<torch::Tensor> results(2);
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      TiedImpl net;
      torch::optim::SGD sgd({net.table->weight, net.alone->weight}, 0.5);
      Distributed training(session, net, sgd, {.strategy = strategy});
      for (int s = 0; s < 3; ++s) {
        sgd.zero_grad();
        net.loss(words(session.rank())).backward();
        training.step();
      }
      training.finish();
      results[static_cast<std::size_t>(session.rank())] = flat(net.parameters()).clone();
    });
    expect_reference(results, expected);
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
