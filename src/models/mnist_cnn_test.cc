#include "models/mnist_cnn.h"

#include <gtest/gtest.h>

namespace tutti::models {
namespace {

TEST(MnistCnn, HasTheParametersOfTheStudy) {
  const auto model = make_model("mnist-cnn");
  EXPECT_EQ(count_parameters(*model), 690'590);
  EXPECT_EQ(model->parameters().size(), 12U);
}

// The same network as the study's text has it: ReLU after each convolution, then pooling.
torch::Tensor as_written(const Model& m, torch::Tensor x) {
  auto p = m.named_parameters();
  for (const char* layer : {"conv1", "conv2", "conv3"}) {
    const std::string name = layer;
    x = torch::max_pool2d(torch::relu(torch::conv2d(x, p[name + ".weight"], p[name + ".bias"])), 2);
  }
  x = x.flatten(1);
  x = torch::relu(torch::linear(x, p["dense1.weight"], p["dense1.bias"]));
  x = torch::relu(torch::linear(x, p["dense2.weight"], p["dense2.bias"]));
  return torch::linear(x, p["dense3.weight"], p["dense3.bias"]);
}

TEST(MnistCnn, PoolingBeforeReluChangesNeitherScoresNorGradients) {
  torch::manual_seed(3);
  MnistCnn model(mnist_cnn().own);
  model.eval();
  const auto x = torch::randn({5, 1, 28, 28});
  const auto gradients = [&](const torch::Tensor& scores) {
    return torch::autograd::grad({scores.square().sum()}, model.parameters());
  };
  const auto fast = model.forward(x);
  const auto plain = as_written(model, x);
  EXPECT_TRUE(torch::equal(fast, plain));
  const auto a = gradients(fast);
  const auto b = gradients(plain);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
}

}  // namespace
}  // namespace tutti::models
