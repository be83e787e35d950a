#include "models/dense.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace tutti::models {
namespace {

using torch::autograd::variable_list;

class Counter final : public torch::autograd::FunctionPostHook {
 public:
  explicit Counter(int& calls) : calls_(calls) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    ++calls_;
    return outputs;
  }

 private:
  int& calls_;
};

class DenseTest : public ::testing::Test {
 protected:
  DenseTest() { torch::manual_seed(1); }

  // Of a loss over what the library's layer makes.
  variable_list expected() const {
    return torch::autograd::grad({loss(torch::nn::functional::linear(x_, layer_->weight, layer_->bias))},
                                 {x_, layer_->weight, layer_->bias});
  }
  static torch::Tensor loss(const torch::Tensor& out) { return out.square().sum(); }

  static void expect_close(const torch::Tensor& a, const torch::Tensor& b) {
    EXPECT_TRUE(torch::allclose(a, b, 1e-4, 1e-4));
  }

  Dense layer_{7, 3};
  torch::Tensor x_ = torch::randn({5, 7}).requires_grad_();
};

TEST_F(DenseTest, EqualsTheLibrarysLayerInValueAndGradients) {
  const auto out = layer_(x_);
  expect_close(out, torch::nn::functional::linear(x_, layer_->weight, layer_->bias));
  loss(out).backward();
  const auto gradients = expected();
  expect_close(x_.grad(), gradients[0]);
  expect_close(layer_->weight.grad(), gradients[1]);
  expect_close(layer_->bias.grad(), gradients[2]);
}

TEST_F(DenseTest, AddsToTheGradientThatIsThereAndSaysSo) {
  const auto gradients = expected();
  const auto place = torch::ones({3, 7});
  layer_->weight.mutable_grad() = place;
  int calls = 0;
  const auto accumulator = torch::autograd::impl::grad_accumulator(layer_->weight);
  accumulator->add_post_hook(std::make_unique<Counter>(calls));
  loss(layer_(x_)).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(layer_->weight.grad().data_ptr(), place.data_ptr());
  expect_close(place, 1 + gradients[1]);
  expect_close(layer_->bias.grad(), gradients[2]);
}

TEST_F(DenseTest, LeavesAWeightAloneThatDoesNotLearn) {
  const auto gradients = expected();
  layer_->weight.mutable_grad() = torch::ones({3, 7});
  layer_->weight.set_requires_grad(false);
  loss(layer_(x_)).backward();
  EXPECT_TRUE(torch::equal(layer_->weight.grad(), torch::ones({3, 7})));
  expect_close(x_.grad(), gradients[0]);
}

}  // namespace
}  // namespace tutti::models
