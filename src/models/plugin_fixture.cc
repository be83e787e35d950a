// A plugin as users make them, for the tests.
#include <cstdlib>
#include <stdexcept>

#include "tutti/network.h"

struct Net : tutti::Network {
  Net() {
    if (std::getenv("TUTTI_TEST_NO_NETWORK") != nullptr) throw std::runtime_error("no weights today");
  }

  torch::Tensor forward(const std::vector<torch::Tensor>& inputs) override {
    return norm(dense(inputs.at(0))).matmul(out.t());
  }

  torch::nn::Linear dense{register_module("dense", torch::nn::Linear(3, 4))};
  torch::nn::BatchNorm1d norm{register_module("norm", torch::nn::BatchNorm1d(4))};
  torch::Tensor out{register_parameter("out", torch::full({2, 4}, 0.5F))};
};
TUTTI_NETWORK(Net)
