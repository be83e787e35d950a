// Networks whose steps are cut into shards, and their samples.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "library/library_fixture.h"
#include "tutti/distributed.h"

namespace tutti::library {

namespace nn = torch::nn;

inline constexpr int kShards = 6;
inline constexpr int kSteps = 5;

// Of a step and a shard. In every third step samples run out: the last shard has none.
inline int samples_of(int step, int shard) {
  if (step % 3 != 2) return 4;
  return shard < kShards - 2 ? 4 : shard < kShards - 1 ? 2 : 0;
}

inline double weight_of(int step, int shard) {
  double all = 0;
  for (int s = 0; s < kShards; ++s) all += samples_of(step, s);
  return samples_of(step, shard) * kShards / all;
}

// Numbers of the samples of a shard, a row each.
inline torch::Tensor numbers_of(int step, int shard, int width) {
  const int count = samples_of(step, shard);
  return torch::arange(count * width).view({count, width}) + 100 * shard + 1000 * step;
}

struct Network : nn::Module {
  // The mean over a shard's samples.
  virtual torch::Tensor loss(int step, int shard) = 0;
  void set_parameters(double first) {
    const torch::NoGradGuard no_grad;
    for (auto& p : parameters()) p.copy_(torch::linspace(-first, first, p.numel()).sin().view_as(p));
  }
};

// Draws, and keeps statistics of its batches.
struct Dropping final : Network {
  explicit Dropping(double first) {
    register_module("hidden", hidden);
    register_module("norm", norm);
    register_module("out", out);
    register_buffer("largest", torch::zeros({2}, torch::kFloat64));
    set_parameters(first);
  }
  torch::Tensor loss(int step, int shard) override {
    const auto x = torch::sin(numbers_of(step, shard, 6) * 0.37F);
    {
      const torch::NoGradGuard no_grad;
      named_buffers()["largest"] += x.sum().to(torch::kFloat64) / 3;
    }
    const auto y = torch::dropout(norm(hidden(x)), 0.4, true);
    return (out(y) - x.narrow(1, 0, 3)).square().mean();
  }
  nn::Linear hidden{nn::LinearOptions(6, 8).bias(false)};  // the norm would take it away
  nn::BatchNorm1d norm{8};
  nn::Linear out{8, 3};
};

struct Reading final : Network {
  explicit Reading(double first) {
    register_module("table", table);
    register_module("out", out);
    set_parameters(first);
  }
  torch::Tensor loss(int step, int shard) override {
    const auto words = numbers_of(step, shard, 5) * 7 % 20;  // repeats some
    const auto target = torch::sin(words.narrow(1, 0, 3).to(torch::kFloat32));
    return (out(torch::tanh(table(words).mean(1))) - target).square().mean();
  }
  nn::Embedding table{20, 4};
  nn::Linear out{4, 3};
};

// Its table's gradient has two parts in one pass.
struct ReadingTwice final : Network {
  explicit ReadingTwice(double first) {
    register_module("table", table);
    register_module("out", out);
    set_parameters(first);
  }
  torch::Tensor loss(int step, int shard) override {
    const auto words = numbers_of(step, shard, 5) * 7 % 20;
    const auto context = table(words).mean(1) * torch::sigmoid(table((words + 3) % 20).sum(1));
    return (out(context) - torch::sin(words.narrow(1, 0, 3).to(torch::kFloat32))).square().mean();
  }
  nn::Embedding table{20, 4};
  nn::Linear out{4, 3};
};

using MakeNetwork = std::function<std::unique_ptr<Network>(double first)>;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Network&)>;

inline std::unique_ptr<Network> dropping(double first) {
  return std::make_unique<Dropping>(first);
}
inline std::unique_ptr<Network> reading(double first) {
  return std::make_unique<Reading>(first);
}
inline std::unique_ptr<Network> reading_twice(double first) {
  return std::make_unique<ReadingTwice>(first);
}
inline std::unique_ptr<torch::optim::Optimizer> sgd(Network& net) {
  return std::make_unique<torch::optim::SGD>(net.parameters(), torch::optim::SGDOptions(0.3));
}
inline std::unique_ptr<torch::optim::Optimizer> adam(Network& net) {
  return std::make_unique<torch::optim::Adam>(net.parameters(), torch::optim::AdamOptions(0.01));
}
// One that is called as it is.
inline std::unique_ptr<torch::optim::Optimizer> amsgrad(Network& net) {
  return std::make_unique<torch::optim::Adam>(net.parameters(),
                                              torch::optim::AdamOptions(0.01).amsgrad(true));
}

inline torch::Tensor everything(const Network& net) {
  std::vector<torch::Tensor> parts;
  for (const auto& p : net.parameters()) parts.push_back(p.detach().reshape({-1}).to(torch::kFloat64));
  for (const auto& b : net.buffers()) parts.push_back(b.reshape({-1}).to(torch::kFloat64));
  return torch::cat(parts);
}

// A training of these options is refused, by each of two processes.
inline void expect_refused(const std::string& why,
                           const std::function<DistributedOptions(int rank)>& options) {
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    Dropping net(1.0);
    const auto optimizer = adam(net);
    expect_throw<ConfigError>(why, [&] { Distributed(session, net, *optimizer, options(session.rank())); });
  });
}
inline void expect_refused(const std::string& why, const DistributedOptions& options) {
  expect_refused(why, [&](int) { return options; });
}

}  // namespace tutti::library
