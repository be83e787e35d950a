#include "models/script.h"

#include <gtest/gtest.h>
#include <torch/script.h>

#include <fstream>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "models/scored_fixture.h"

namespace tutti::models {
namespace {

namespace jit = torch::jit;

// What torch.jit.script would save: two layers, batch norm between them whose count is laid anew in every
// pass.
jit::Module example() {
  torch::manual_seed(3);
  jit::Module dense("dense");
  dense.register_parameter("weight", torch::randn({4, 3}) / 2, false);
  dense.register_parameter("bias", torch::zeros({4}), false);
  dense.register_attribute("training", c10::BoolType::get(), true);
  dense.register_buffer("seen", torch::zeros({1}, torch::kInt64));
  dense.register_buffer("mean", torch::zeros({4}));
  dense.define(R"(
    def forward(self, x):
        y = torch.matmul(x, self.weight.t()) + self.bias
        if self.training:
            self.seen = self.seen + 1
            self.mean.add_(y.mean(0).detach())
        return y
  )");
  jit::Module net("net");
  net.register_module("dense", dense);
  net.register_parameter("out", torch::randn({2, 4}) / 2, false);
  net.define(R"(
    def forward(self, x):
        return torch.matmul(torch.tanh(self.dense.forward(x)), self.out.t())
  )");
  for (auto p : net.parameters()) p.set_requires_grad(true);
  return net;
}

class Script : public ::testing::Test {
 protected:
  std::string save(const jit::Module& net) {
    net.save(file_);
    return file_;
  }
  std::string error_of_file() {
    try {
      script_model(file_, ScoreLoss::cross_entropy);
    } catch (const DataError& e) {
      return e.what();
    }
    return "";
  }
  ScratchFolder scratch_;
  const std::string file_ = (scratch_.path() / "net.pt").string();
};

TEST_F(Script, ComputesAndLearnsByTheTensorsThatItsModuleShows) {
  const auto info = script_model(save(example()), ScoreLoss::cross_entropy);
  EXPECT_EQ(info.parameters, 4 * 3 + 4 + 2 * 4);
  const auto model = info.make({});
  std::vector<std::string> names;
  for (const auto& p : model->named_parameters()) names.push_back(p.key());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"dense.bias", "dense.weight", "out"}));

  const auto parameters = model->named_parameters();
  const auto scores = torch::tanh(kBatch[0].matmul(parameters["dense.weight"].t()) + parameters["dense.bias"])
                          .matmul(parameters["out"].t());
  EXPECT_TRUE(torch::allclose(model->loss(kBatch), torch::nn::functional::cross_entropy(scores, kBatch[1])));

  EXPECT_LT(loss_left_after_training(*model), 0.9);
}

TEST_F(Script, BuffersAreSeenThoughTheScriptLaysNewOnesInTheirPlace) {
  const auto model = script_model(save(example()), ScoreLoss::cross_entropy).make({});
  const auto buffers = model->named_buffers();
  model->train();
  for (int i = 0; i < 3; ++i) model->loss(kBatch);
  EXPECT_EQ(buffers["dense.seen"].item<std::int64_t>(), 3);
  EXPECT_GT(buffers["dense.mean"].abs().sum().item<float>(), 0);
  model->eval();
  model->loss(kBatch);
  EXPECT_EQ(buffers["dense.seen"].item<std::int64_t>(), 3);
  // What is written into ours, as a checkpoint does, the script goes on from.
  const torch::NoGradGuard no_grad;
  buffers["dense.seen"].fill_(10);
  model->train();
  model->loss(kBatch);
  EXPECT_EQ(buffers["dense.seen"].item<std::int64_t>(), 11);
}

// Those that a process makes later, too, when an executor may know more of the network.
TEST_F(Script, EveryPassGivesTheSameBits) {
  torch::manual_seed(3);
  jit::Module net("net");
  net.register_parameter("first", torch::randn({64, 3}), false);
  net.register_parameter("last", torch::randn({2, 64}), false);
  net.define(R"(
    def forward(self, x):
        x = torch.matmul(x, self.first.t())
        y = torch.sigmoid(x) * torch.tanh(x) + x * 0.5 + torch.exp(-x * x) / 3.0
        y = torch.dropout(y, 0.3, True) * torch.silu(y) + torch.pow(torch.softplus(y), 1.5)
        return torch.matmul(torch.layer_norm(y, [64]), self.last.t())
  )");
  for (auto p : net.parameters()) p.set_requires_grad(true);
  const auto model = script_model(save(net), ScoreLoss::cross_entropy).make({});
  model->train();
  const auto x = torch::randn({32, 3});
  const auto y = torch::arange(32).remainder(2);
  std::vector<torch::Tensor> first;
  for (int pass = 0; pass < 5; ++pass) {
    torch::manual_seed(4);
    model->zero_grad();
    const auto loss = model->loss({x, y});
    loss.backward();
    std::vector<torch::Tensor> now = {loss.detach()};
    for (const auto& p : model->parameters()) now.push_back(p.grad().clone());
    if (first.empty()) first = now;
    for (std::size_t i = 0; i < now.size(); ++i) {
      EXPECT_TRUE(torch::equal(now[i], first[i])) << "pass " << pass << ", tensor " << i;
    }
  }
}

TEST_F(Script, ScoresAreJudgedByTheLossThatIsAskedFor) {
  jit::Module net("net");
  net.register_parameter("w", torch::ones({1}), false);
  net.define("def forward(self, x):\n    return (x.sum(1) * self.w).unsqueeze(1)\n");
  for (auto p : net.parameters()) p.set_requires_grad(true);
  save(net);
  const Batch batch = {torch::tensor({{3.0F}, {-2.0F}}), torch::tensor({1, 1}, torch::kInt64)};
  auto score = script_model(file_, ScoreLoss::mse).make({})->score(batch);
  EXPECT_DOUBLE_EQ(score.loss, 4 + 9);
  EXPECT_TRUE(score.counts.empty());
  score = script_model(file_, ScoreLoss::bce).make({})->score(batch);
  EXPECT_NEAR(score.loss, std::log1p(std::exp(-3.0)) + std::log1p(std::exp(2.0)), 1e-5);
  EXPECT_EQ(score.counts, std::vector<double>{1});
}

TEST_F(Script, ConvolutionsAreFedChannelsLastUnlessAViewInsistsOnAnOrder) {
  const auto fed_channels_last = [&](const std::string& rest) {
    jit::Module conv("conv");
    conv.register_parameter("weight", torch::ones({2, 3, 3, 3}), false);
    conv.define("def forward(self, x):\n    return torch.conv2d(x, self.weight)\n");
    jit::Module net("net");
    net.register_module("conv", conv);
    net.define("def forward(self, x):\n    return " + rest + "\n");
    for (auto p : net.parameters()) p.set_requires_grad(true);
    return script_model(save(net), ScoreLoss::cross_entropy).channels_last;
  };
  EXPECT_TRUE(fed_channels_last("self.conv.forward(x).flatten(1)"));
  EXPECT_TRUE(fed_channels_last("self.conv.forward(x).reshape([x.size(0), -1])"));
  EXPECT_FALSE(fed_channels_last("self.conv.forward(x).view([x.size(0), -1])"));
  EXPECT_FALSE(script_model(save(example()), ScoreLoss::cross_entropy).channels_last);
}

TEST_F(Script, WhatCannotBeLoadedIsNamedInOneLine) {
  EXPECT_EQ(error_of_file(), file_ + ": there is no such file");
  std::ofstream(file_) << "no network";
  EXPECT_TRUE(error_of_file().starts_with(file_ + ": this cannot be loaded as TorchScript"))
      << error_of_file();
  EXPECT_EQ(error_of_file().find('\n'), std::string::npos);
  jit::Module empty("net");
  empty.define("def forward(self, x):\n    return x\n");
  empty.save(file_);
  EXPECT_EQ(error_of_file(), file_ + ": the network has no parameters to train");
}

TEST(Loss, IsOneOfThree) {
  EXPECT_EQ(parse_loss("bce"), ScoreLoss::bce);
  EXPECT_THROW(parse_loss("hinge"), ConfigError);
}

}  // namespace
}  // namespace tutti::models
