#include "models/batch_norm.h"

#include <gtest/gtest.h>

#include <barrier>
#include <mutex>
#include <thread>

namespace tutti::models {
namespace {

constexpr std::int64_t kChannels = 5;

torch::Tensor random_images(std::int64_t count) {
  torch::manual_seed(3);
  return torch::randn({count, kChannels, 4, 3}) * 3 + 7;
}

std::shared_ptr<BatchNorm2dImpl> fresh() {
  auto norm = std::make_shared<BatchNorm2dImpl>(kChannels);
  torch::manual_seed(4);
  const torch::NoGradGuard no_grad;
  norm->weight.copy_(torch::randn({kChannels}));
  norm->bias.copy_(torch::randn({kChannels}));
  return norm;
}

struct Result {
  torch::Tensor out, to_input, to_weight, to_bias, mean, variance;
};

// `factors` make a loss of the outputs that treats no two alike.
Result run(BatchNorm2dImpl& norm, const torch::Tensor& images, const torch::Tensor& factors) {
  const auto x = images.clone().requires_grad_();
  const auto out = norm.forward(x);
  (out * out * factors).sum().backward();
  return {out.detach(), x.grad(), norm.weight.grad(), norm.bias.grad(), norm.running_mean, norm.running_var};
}

TEST(BatchNorm, OneNumberAChannelLeavesWhatIsKnownOfManyAlone) {
  for (const bool synchronised : {false, true}) {
    SCOPED_TRACE(synchronised ? "synchronised" : "alone");
    auto norm = fresh();
    if (synchronised) synchronise_batch_norm(*norm, [](std::span<double>) {});  // a sum over one worker
    norm->forward(random_images(2));
    const auto mean = norm->running_mean.clone();
    const auto variance = norm->running_var.clone();
    EXPECT_TRUE(norm->forward(torch::randn({1, kChannels, 1, 1})).flatten().allclose(norm->bias, 0, 1e-3));
    EXPECT_TRUE(torch::equal(norm->running_mean, mean));
    EXPECT_TRUE(torch::equal(norm->running_var, variance));
  }
}

// Sums of two threads.
class Pair {
 public:
  void sum(std::span<double> values) {
    {
      const std::scoped_lock lock(mutex_);
      total_.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) total_[i] += values[i];
    }
    both_added_.arrive_and_wait();
    std::ranges::copy(total_, values.begin());
    both_read_.arrive_and_wait();
  }

 private:
  std::mutex mutex_;
  std::vector<double> total_;
  std::barrier<> both_added_{2};
  std::barrier<std::function<void()>> both_read_{2, [this] { total_.clear(); }};
};

TEST(BatchNorm, TwoWorkersTogetherAreOneWithAllSamples) {
  const auto images = random_images(10);
  torch::manual_seed(5);
  const auto factors = torch::randn(images.sizes());
  const auto whole_norm = fresh();
  const auto whole = run(*whole_norm, images, factors);

  Pair pair;
  Result parts[2];
  const std::int64_t cut[] = {0, 3, 10};  // of different sizes
  const std::shared_ptr<BatchNorm2dImpl> norms[] = {fresh(), fresh()};
  {
    std::vector<std::jthread> workers;
    for (int w = 0; w < 2; ++w) {
      workers.emplace_back([&, w] {
        EXPECT_EQ(synchronise_batch_norm(*norms[w], [&](std::span<double> s) { pair.sum(s); }), 1);
        parts[w] = run(*norms[w], images.slice(0, cut[w], cut[w + 1]), factors.slice(0, cut[w], cut[w + 1]));
      });
    }
  }
  const auto near = [](const torch::Tensor& a, const torch::Tensor& b) {
    return torch::allclose(a, b, 1e-4, 1e-4);
  };
  EXPECT_TRUE(near(torch::cat({parts[0].out, parts[1].out}), whole.out));
  EXPECT_TRUE(near(torch::cat({parts[0].to_input, parts[1].to_input}), whole.to_input));
  EXPECT_TRUE(near(parts[0].to_weight + parts[1].to_weight, whole.to_weight));
  EXPECT_TRUE(near(parts[0].to_bias + parts[1].to_bias, whole.to_bias));
  for (const auto& part : parts) {
    EXPECT_TRUE(near(part.mean, whole.mean));
    EXPECT_TRUE(near(part.variance, whole.variance));
  }
  EXPECT_TRUE(torch::equal(parts[0].mean, parts[1].mean));
}

TEST(BatchNorm, AloneItIsTheLibrarysToTheBit) {
  const auto images = random_images(6);
  const auto factors = torch::ones(images.sizes());
  const auto ours = run(*fresh(), images, factors);
  const auto values = fresh();
  torch::nn::BatchNorm2d norm(kChannels);
  norm->weight.set_data(values->weight.data());
  norm->bias.set_data(values->bias.data());
  const auto x = images.clone().requires_grad_();
  const auto out = norm(x);
  (out * out * factors).sum().backward();
  EXPECT_TRUE(torch::equal(ours.out, out));
  EXPECT_TRUE(torch::equal(ours.to_input, x.grad()));
  EXPECT_TRUE(torch::equal(ours.mean, norm->running_mean));
  EXPECT_TRUE(torch::equal(ours.variance, norm->running_var));
}

TEST(BatchNorm, EvaluationAsksNobody) {
  const auto norm = fresh();
  synchronise_batch_norm(*norm, [](std::span<double>) { FAIL() << "asked"; });
  norm->eval();
  EXPECT_TRUE(norm->forward(random_images(2)).isfinite().all().item<bool>());
}

}  // namespace
}  // namespace tutti::models
