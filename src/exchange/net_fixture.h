// A small network for tests of exchanges.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace tutti::exchange::fixture {

struct Net : torch::nn::Module {
  torch::nn::Linear a{register_module("a", torch::nn::Linear(7, 9))};
  torch::nn::Linear b{register_module("b", torch::nn::Linear(9, 5))};
  torch::nn::Linear c{register_module("c", torch::nn::Linear(5, 3))};
  torch::Tensor forward(const torch::Tensor& x) { return c(torch::relu(b(torch::relu(a(x))))); }
};

// All parameters' numbers, in one row.
inline torch::Tensor flat(const torch::nn::Module& m) {
  std::vector<torch::Tensor> parts;
  for (const auto& p : m.parameters()) parts.push_back(p.detach().flatten());
  return torch::cat(parts);
}

}  // namespace tutti::exchange::fixture
