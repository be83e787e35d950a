// What every strategy promises, on every medium: the step that one process with all samples would make.
#include <gtest/gtest.h>

#include <mutex>

#include "base/error.h"
#include "exchange/strategy.h"
#include "net/inproc.h"

namespace tutti::exchange {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);
constexpr std::size_t kBucketBytes = 256;  // several buckets

struct Net : torch::nn::Module {
  torch::nn::Linear a{register_module("a", torch::nn::Linear(7, 9))};
  torch::nn::Linear b{register_module("b", torch::nn::Linear(9, 5))};
  torch::nn::Linear c{register_module("c", torch::nn::Linear(5, 3))};
  torch::Tensor forward(const torch::Tensor& x) { return c(torch::relu(b(torch::relu(a(x))))); }
};

struct Case {
  std::string strategy;
  net::Medium medium;
  int world;
};

torch::Tensor flat(const torch::nn::Module& m) {
  std::vector<torch::Tensor> parts;
  for (const auto& p : m.parameters()) parts.push_back(p.detach().flatten());
  return torch::cat(parts);
}

// Trains for a few steps, each rank on its rows of the same data; returns each replica's parameters.
std::vector<torch::Tensor> train(const Case& c, int steps, optim::Kind kind) {
  std::vector<torch::Tensor> replicas(static_cast<std::size_t>(c.world));
  std::mutex torch_seed;
  net::run_as_threads(c.medium, c.world, kPatience, [&](net::Transport& t) {
    const Strategy& strategy = find_strategy(c.strategy);
    collectives::Communicator all(t, algorithm_of(strategy, "auto"));
    torch::Tensor x;
    std::shared_ptr<Net> model;
    {
      const std::scoped_lock lock(torch_seed);
      torch::manual_seed(99);
      x = torch::randn({12, 7});
      torch::manual_seed(static_cast<std::uint64_t>(7 + to_int(t.rank())));  // replicas start different
      model = std::make_shared<Net>();
    }
    grad::Buckets buckets(*model, kBucketBytes, [&](std::size_t bytes) { return all.allocate(bytes); });
    Updater updater(buckets, {.kind = kind, .lr = 0.05});
    observe::Trace trace(false, t.rank());
    std::vector<std::span<float>> parameters;
    for (std::size_t b = 0; b < buckets.size(); ++b) parameters.push_back(buckets.parameters(b));
    broadcast_from_first(all, buckets, parameters, "initial weights");
    const auto exchange = make_exchange(strategy, {buckets, updater, all, trace});
    buckets.on_gradient([&](grad::ParamId id) { exchange->on_gradient(id); });
    for (int step = 1; step <= steps; ++step) {
      updater.begin_step(step, 0.05);
      const auto mine = x.chunk(c.world)[static_cast<std::size_t>(to_int(t.rank()))];
      model->forward(mine).square().mean().backward();
      exchange->finish_step();
    }
    replicas[static_cast<std::size_t>(to_int(t.rank()))] = flat(*model).clone();
  });
  return replicas;
}

class ExchangeContract : public ::testing::TestWithParam<Case> {};

TEST_P(ExchangeContract, ReplicasEndEqualToTheBitAndLikeOneProcessAlone) {
  for (const auto kind : {optim::Kind::sgd, optim::Kind::adam}) {
    const auto replicas = train(GetParam(), 10, kind);
    const auto alone = train({"local", net::Medium::memory, 1}, 10, kind)[0];
    for (const auto& r : replicas) {
      EXPECT_TRUE(torch::equal(r, replicas[0]));
      EXPECT_TRUE(torch::allclose(r, alone, 1e-4, 1e-5)) << (r - alone).abs().max();
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* strategy : {"ring", "allreduce", "reduce-broadcast"}) {
    for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
      for (const int world : {1, 2, 3, 4}) all.push_back({strategy, medium, world});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeContract, ::testing::ValuesIn(cases()), [](const auto& p) {
  std::string name = p.param.strategy + (p.param.medium == net::Medium::memory ? "Memory" : "Sockets");
  std::erase(name, '-');
  return name + std::to_string(p.param.world);
});

TEST(Exchange, RankThatDiesInMidStepEndsFinishStepOfTheOthers) {
  net::run_as_threads(net::Medium::memory, 2, kPatience, [](net::Transport& t) {
    collectives::Communicator all(t);
    Net model;
    grad::Buckets buckets(model, kBucketBytes, [&](std::size_t bytes) { return all.allocate(bytes); });
    if (t.rank() == Rank{1}) return;
    Updater updater(buckets, {});
    observe::Trace trace(false, t.rank());
    const auto exchange = make_exchange(find_strategy("allreduce"), {buckets, updater, all, trace});
    updater.begin_step(17, 0.1);
    try {
      exchange->finish_step();
      ADD_FAILURE();
    } catch (const PeerLost& e) {
      EXPECT_EQ(e.fault.operation, "all-reduce of bucket 0, step 17");
    }
  });
}

TEST(Strategy, UnknownNamesListTheKnownOnes) {
  try {
    find_strategy("telepathy");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("reduce-broadcast"), std::string::npos);
  }
  EXPECT_THROW(algorithm_of(find_strategy("ring"), "tree"), ConfigError);
  EXPECT_THROW(algorithm_of(find_strategy("allreduce"), "zigzag"), ConfigError);
}

}  // namespace
}  // namespace tutti::exchange
