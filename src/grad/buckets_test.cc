#include "grad/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

namespace tutti::grad {
namespace {

struct TwoLayers : torch::nn::Module {
  torch::nn::Conv2d conv{register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 3, 3)))};
  torch::nn::Linear dense{register_module("dense", torch::nn::Linear(3, 2))};
  torch::Tensor forward(const torch::Tensor& x) { return dense(conv(x).mean({2, 3})); }
};

struct Memory {
  std::list<std::vector<float>> blocks;
  Buckets::Allocate allocator() {
    return [this](std::size_t bytes) {
      return std::as_writable_bytes(std::span(blocks.emplace_back(bytes / 4)));
    };
  }
};

TEST(Buckets, FillFromTheLastParameterToTheFirstAndAreNeverSplit) {
  const std::size_t counts[] = {100, 10, 1000, 16};
  const auto plan = plan_buckets(counts, 400);
  ASSERT_EQ(plan.size(), 2U);
  ASSERT_EQ(plan[0].slices.size(), 2U);  // 16, then 1000 passes the limit and closes it
  EXPECT_EQ(plan[0].slices[0].param, ParamId{3});
  EXPECT_EQ(plan[0].slices[1].first, 16U);
  EXPECT_EQ(plan[1].slices[0].param, ParamId{1});
  EXPECT_EQ(plan[1].slices[1].first, 16U);  // 10 padded to a line
}

TEST(Buckets, HoldParametersOfOnePhaseAndTheFirstPhaseComesFirst) {
  const std::size_t counts[] = {100, 10, 1000, 16};
  const std::size_t phases[] = {1, 0, 1, 0};
  const auto plan = plan_buckets(counts, 1 << 20, phases);
  ASSERT_EQ(plan.size(), 2U);
  EXPECT_EQ(plan[0].phase, 0U);
  ASSERT_EQ(plan[0].slices.size(), 2U);
  EXPECT_EQ(plan[0].slices[0].param, ParamId{3});
  EXPECT_EQ(plan[0].slices[1].param, ParamId{1});
  EXPECT_EQ(plan[1].phase, 1U);
  EXPECT_EQ(plan[1].slices[0].param, ParamId{2});
}

TEST(Buckets, BackwardOfAPhaseLeavesTheOthersGradientsAlone) {
  TwoLayers model;
  Memory memory;
  Buckets buckets(model, 1 << 20, memory.allocator(), {}, {"dense.", ""});
  ASSERT_EQ(buckets.size(), 2U);
  std::vector<int> heard;
  buckets.on_gradient([&](ParamId id) { heard.push_back(to_int(id)); });
  const auto touched = [&](std::size_t b) {
    return std::ranges::any_of(buckets.gradients(b), [](float g) { return g != 0; });
  };
  const auto x = torch::randn({4, 2, 5, 5});
  for (const std::size_t phase : {0U, 1U, 0U}) {
    buckets.zero_gradients();
    heard.clear();
    buckets.begin_phase(phase);
    model.forward(x).square().sum().backward();
    EXPECT_TRUE(touched(phase));
    EXPECT_FALSE(touched(1 - phase));
    EXPECT_EQ(heard.size(), 2U);
  }
}

TEST(Buckets, BackwardWritesIntoTheBucketsInEveryMemoryFormat) {
  for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
    torch::manual_seed(1);
    TwoLayers plain;
    torch::manual_seed(1);
    TwoLayers bucketed;
    for (auto& p : bucketed.parameters()) {
      if (p.dim() == 4) p.set_data(p.data().contiguous(format));
    }
    Memory memory;
    Buckets buckets(bucketed, 64, memory.allocator());
    const auto x = torch::randn({4, 2, 5, 5});
    plain.forward(x).square().sum().backward();
    bucketed.forward(x).square().sum().backward();

    std::vector<std::span<float>> flat;
    for (std::size_t b = 0; b < buckets.size(); ++b) flat.push_back(buckets.gradients(b));
    const auto views = buckets.named_views(flat);
    const auto expected = plain.named_parameters();
    ASSERT_EQ(views.size(), expected.size());
    for (const auto& [name, gradient] : views) {
      EXPECT_TRUE(torch::allclose(gradient, expected[name].grad())) << name;
      EXPECT_EQ(bucketed.named_parameters()[name].grad().data_ptr(), gradient.data_ptr()) << name;
    }
    buckets.zero_gradients();
    EXPECT_EQ(bucketed.conv->weight.grad().abs().sum().item<float>(), 0);
  }
}

TEST(Buckets, ParametersAreViewsThatAnUpdateOfTheBucketChanges) {
  TwoLayers m;
  Memory memory;
  Buckets buckets(m, 1 << 20, memory.allocator());
  for (float& x : buckets.parameters(0)) x = 2;
  EXPECT_TRUE(torch::equal(m.dense->bias, torch::full({2}, 2.0F)));
}

TEST(Buckets, HookFiresOnceAParameterAndStepWhenItsGradientIsThere) {
  TwoLayers m;
  Memory memory;
  Buckets buckets(m, 64, memory.allocator());
  std::vector<int> fired(buckets.parameter_count());
  buckets.on_gradient([&](ParamId id) {
    ++fired[static_cast<std::size_t>(to_int(id))];
    EXPECT_GT(m.parameters()[static_cast<std::size_t>(to_int(id))].grad().abs().sum().item<float>(), 0);
  });
  for (int step = 1; step <= 3; ++step) {
    buckets.zero_gradients();
    m.forward(torch::randn({4, 2, 5, 5})).square().sum().backward();
    EXPECT_EQ(fired, std::vector<int>(4, step));
  }
}

TEST(Buckets, DroppedGradientsComeBackIntoTheBucketWithNothingLeftOfTheFormer) {
  TwoLayers m;
  Memory memory;
  Buckets buckets(m, 1 << 20, memory.allocator());
  buckets.on_gradient([](ParamId) {});
  const auto x = torch::randn({4, 2, 5, 5});
  m.forward(x).square().sum().backward();
  const std::vector<float> expected(buckets.gradients(0).begin(), buckets.gradients(0).end());
  std::ranges::fill(buckets.gradients(0), 7.0F);  // padding as well, as somebody who works on it may
  buckets.drop_gradients();
  for (const auto& p : m.parameters()) EXPECT_FALSE(p.grad().defined());
  m.forward(x).square().sum().backward();
  EXPECT_EQ(std::vector<float>(buckets.gradients(0).begin(), buckets.gradients(0).end()), expected);
  EXPECT_EQ(m.dense->bias.grad().data_ptr(), buckets.gradients(0).data());
}

}  // namespace
}  // namespace tutti::grad
