// Trainings of a model that has something of everything, saved on the way and gone on with.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "library/library_fixture.h"
#include "tutti/distributed.h"

namespace tutti::library::fixture {

namespace fs = std::filesystem;
namespace nn = torch::nn;
using torch::optim::AdamOptions;

// Something of all that a module can have: a table, a statistic of the batches, a parameter that is frozen,
// and buffers of other types and layouts.
struct RichImpl : nn::Module {
  explicit RichImpl(double first, int width = 5) {
    table = register_module("table", nn::Embedding(20, 4));
    hidden = register_module("hidden", nn::Linear(4, width));
    norm = register_module("norm", nn::BatchNorm1d(width));
    out = register_module("out", nn::Linear(width, 3));
    frozen = register_module("frozen", nn::Linear(3, 3));
    register_buffer("mask", torch::full({3}, -INFINITY));
    register_buffer("seen", torch::zeros({3}, torch::kBool));
    register_buffer("turned", torch::zeros({2, 3}, torch::kFloat64).t());
    const torch::NoGradGuard no_grad;
    for (auto& p : parameters()) p.copy_(torch::linspace(-first, first, p.numel()).sin().view_as(p));
    for (auto& p : frozen->parameters()) p.set_requires_grad(false);
  }
  torch::Tensor forward(const torch::Tensor& words) {
    const torch::NoGradGuard no_grad;
    named_buffers()["seen"][0] = true;
    named_buffers()["turned"] += words.sum().item<double>();
    const torch::AutoGradMode with_grad(true);
    return frozen(out(torch::tanh(norm(hidden(table(words).mean(1))))));
  }
  nn::Embedding table{nullptr};
  nn::Linear hidden{nullptr};
  nn::BatchNorm1d norm{nullptr};
  nn::Linear out{nullptr};
  nn::Linear frozen{nullptr};
};
TORCH_MODULE(Rich);

// All numbers of a module, whatever their type.
inline torch::Tensor everything(Rich& net) {
  std::vector<torch::Tensor> parts;
  for (const auto& p : net->parameters()) parts.push_back(p.detach().reshape({-1}).to(torch::kFloat64));
  for (const auto& b : net->buffers()) parts.push_back(b.reshape({-1}).to(torch::kFloat64));
  return torch::cat(parts);
}

inline torch::Tensor rich_loss(Rich& net, int step, int rank) {
  const auto words = (torch::arange(24).view({6, 4}) * (step + 2) + rank * 7) % 20;
  const auto target = torch::sin(torch::arange(18, torch::kFloat32).view({6, 3}) + words.sum());
  return (net->forward(words) - target).square().mean();
}

using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(Rich&)>;

inline std::unique_ptr<torch::optim::Optimizer> flat_adam(Rich& net) {
  return std::make_unique<torch::optim::Adam>(net->parameters(), AdamOptions(0.01));
}
// One that is called as it is.
inline std::unique_ptr<torch::optim::Optimizer> amsgrad(Rich& net) {
  return std::make_unique<torch::optim::Adam>(net->parameters(), AdamOptions(0.01).amsgrad(true));
}

// Its table is nobody's then, so that the processes of a host can push as one.
inline std::unique_ptr<torch::optim::Optimizer> adam_without_table(Rich& net) {
  std::vector<torch::Tensor> parameters;
  for (const auto& p : net->named_parameters()) {
    if (p.key() != "table.weight") parameters.push_back(p.value());
  }
  return std::make_unique<torch::optim::Adam>(parameters, AdamOptions(0.01));
}

struct Trial {
  int world = 2;
  DistributedOptions options = {};
  Make make = flat_adam;
  std::vector<int> hosts = {};  // of `world` ranks, if it is known
  int first = 0;
  int last = 8;
  std::vector<int> save_after = {};
  fs::path folder = {};
};

// Every rank's model in the end.
inline std::vector<torch::Tensor> train(const Trial& run) {
  std::vector<torch::Tensor> results(static_cast<std::size_t>(run.world));
  const auto body = [&](Session& session) {
    Rich net(1.0 + session.rank() + run.first);
    const auto optimizer = run.make(net);
    Distributed training(session, *net, *optimizer, run.options);
    EXPECT_EQ(training.steps(), run.first);
    for (int s = run.first; s < run.last; ++s) {
      optimizer->zero_grad();
      rich_loss(net, s, session.rank()).backward();
      training.step();
      if (std::ranges::count(run.save_after, s + 1) > 0) training.save(run.folder);
    }
    training.finish();
    EXPECT_EQ(training.steps(), run.last);
    results[static_cast<std::size_t>(session.rank())] = everything(net);
  };
  run.hosts.empty() ? run_sessions(run.world, net::Medium::memory, body) : run_sessions_on(run.hosts, body);
  return results;
}

inline void damage(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream.put('\x55');
  ASSERT_TRUE(stream.good());
}

}  // namespace tutti::library::fixture
