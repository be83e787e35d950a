#include "library/recognise.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "optim/step.h"

namespace tutti::library {
namespace {

using namespace torch::optim;

std::vector<torch::Tensor> one_parameter() {
  return {torch::ones({3}, torch::requires_grad())};
}

// Ten steps by torch and by the loop that was recognised, from the same random gradients.
template <typename Optimizer, typename Options>
void expect_same_steps(const Options& options) {
  auto theirs = torch::linspace(-2, 2, 101).requires_grad_();
  Optimizer optimizer({theirs}, options);
  const auto recognised = recognise(optimizer);
  ASSERT_TRUE(recognised.settings) << recognised.why_not;
  auto ours = theirs.detach().clone();
  std::vector<torch::Tensor> memory;
  std::vector<std::span<float>> state;
  for (int s = 0; s < optim::state_slots(*recognised.settings); ++s) {
    memory.push_back(torch::zeros_like(ours));
    state.emplace_back(memory.back().data_ptr<float>(), 101);
  }
  torch::manual_seed(7);
  for (int t = 1; t <= 10; ++t) {
    const auto gradient = torch::randn({101});
    theirs.mutable_grad() = gradient.clone();
    optimizer.step();
    optim::step(*recognised.settings, learning_rates(optimizer)[0], t, {ours.data_ptr<float>(), 101},
                {gradient.data_ptr<float>(), 101}, state);
  }
  EXPECT_TRUE(torch::allclose(ours, theirs, 1e-6, 1e-6)) << (ours - theirs).abs().max();
  EXPECT_GT((theirs - torch::linspace(-2, 2, 101)).abs().min().item<float>(), 1e-6F);  // all have moved
}

TEST(Recognise, LoopsComputeWhatTorchDoes) {
  expect_same_steps<SGD>(SGDOptions(0.1));
  expect_same_steps<SGD>(SGDOptions(0.1).weight_decay(0.01));
  expect_same_steps<SGD>(SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
  expect_same_steps<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true));
  expect_same_steps<Adam>(AdamOptions(0.01).betas({0.8, 0.99}).eps(1e-6).weight_decay(0.1));
  expect_same_steps<AdamW>(AdamWOptions(0.01).weight_decay(0.1));
  expect_same_steps<RMSprop>(RMSpropOptions(0.01).alpha(0.9));
  expect_same_steps<RMSprop>(RMSpropOptions(0.01).momentum(0.5).weight_decay(0.01));
  expect_same_steps<Adagrad>(AdagradOptions(0.1).weight_decay(0.01));
}

TEST(Recognise, SaysWhyNot) {
  EXPECT_NE(
      recognise(SGD(one_parameter(), SGDOptions(0.1).momentum(0.9).dampening(0.5))).why_not.find("dampening"),
      std::string::npos);
  EXPECT_NE(recognise(Adam(one_parameter(), AdamOptions(0.1).amsgrad(true))).why_not.find("amsgrad"),
            std::string::npos);
  EXPECT_NE(recognise(RMSprop(one_parameter(), RMSpropOptions(0.1).centered(true))).why_not.find("centered"),
            std::string::npos);
  EXPECT_NE(recognise(Adagrad(one_parameter(), AdagradOptions(0.1).lr_decay(0.5))).why_not.find("lr_decay"),
            std::string::npos);
  EXPECT_NE(recognise(LBFGS(one_parameter(), LBFGSOptions(1))).why_not.find("none of torch's"),
            std::string::npos);
}

TEST(Recognise, GroupsWithDifferentNumbersAreLeftToTorch) {
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(one_parameter());
  groups.emplace_back(one_parameter(), std::make_unique<SGDOptions>(0.5));
  EXPECT_FALSE(recognise(SGD(groups, SGDOptions(0.1))).settings);
}

TEST(Recognise, OneThatHasMadeStepsKeepsItsState) {
  auto parameters = one_parameter();
  Adam adam(parameters, AdamOptions(0.1));
  EXPECT_TRUE(recognise(adam).settings);
  parameters[0].mutable_grad() = torch::ones({3});
  adam.step();
  EXPECT_FALSE(recognise(adam).settings);
  Adagrad adagrad(parameters, AdagradOptions(0.1));
  EXPECT_TRUE(recognise(adagrad).settings);
  adagrad.step();
  EXPECT_FALSE(recognise(adagrad).settings);
}

class Mine final : public SGD {
 public:
  using SGD::SGD;
};

TEST(Recognise, WhatIsDerivedMayDoAnything) {
  EXPECT_FALSE(recognise(Mine(one_parameter(), SGDOptions(0.1))).settings);
}

}  // namespace
}  // namespace tutti::library
