// A small network for tests of trainings, its samples and its loss.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace tutti::library {

// What ranks build differently, because each draws its own first weights: the constructor makes them equal.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(double first) {
    hidden = register_module("hidden", torch::nn::Linear(6, 5));
    norm = register_module("norm", torch::nn::BatchNorm1d(5));
    out = register_module("out", torch::nn::Linear(5, 3));
    const torch::NoGradGuard no_grad;
    for (auto& p : parameters()) {
      p.copy_(torch::linspace(-first, first, p.numel()).sin().view_as(p));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::tanh(hidden(x))); }
  torch::nn::Linear hidden{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};  // no gradient ever comes to it
  torch::nn::Linear out{nullptr};
};
TORCH_MODULE(Net);

inline constexpr int kBatch = 4;

// Samples of a step, of all workers.
inline torch::Tensor samples(int step, int world) {
  return torch::sin(torch::arange(world * kBatch * 6, torch::kFloat32).view({world * kBatch, 6}) * 0.37F +
                    static_cast<float>(step));
}

inline torch::Tensor loss_of(Net& net, const torch::Tensor& x) {
  return (net->forward(x) - x.narrow(1, 0, 3)).square().mean();
}

// All numbers, in one row.
inline torch::Tensor flat(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> parts;
  for (const auto& p : parameters) parts.push_back(p.detach().reshape({-1}));
  return torch::cat(parts);
}

}  // namespace tutti::library
