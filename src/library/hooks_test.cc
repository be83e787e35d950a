#include "tutti/hook.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/error.h"
#include "library/library_fixture.h"

namespace tutti::library {
namespace {

// A session as what a hook moves numbers with.
class OverSession final : public Workers {
 public:
  explicit OverSession(Session& session) : session_(session) {}
  int rank() const override { return session_.rank(); }
  int size() const override { return session_.size(); }
  void all_reduce(torch::Tensor& tensor, ReduceOp op) override {
    bytes += tensor.nbytes();
    session_.all_reduce(tensor, op);
  }
  torch::Tensor all_gather(const torch::Tensor& tensor) override {
    bytes += tensor.nbytes();
    return session_.all_gather(tensor);
  }
  void broadcast(torch::Tensor& tensor, int root) override { session_.broadcast(tensor, root); }
  std::size_t bytes = 0;  // that this process has brought

 private:
  Session& session_;
};

torch::Tensor gradients_of(int rank, int step, std::int64_t n) {
  return torch::sin(torch::arange(n, torch::kFloat32) * (0.1F + 0.05F * static_cast<float>(rank)) +
                    static_cast<float>(step));
}

torch::Tensor mean_of(int world, int step, std::int64_t n) {
  auto sum = torch::zeros({n});
  for (int r = 0; r < world; ++r) sum += gradients_of(r, step, n);
  return sum / world;
}

TEST(HalfHooks, RoundTheMeanAndHalveTheBytes) {
  run_sessions(3, net::Medium::memory, [](Session& session) {
    OverSession all(session);
    for (const auto& [hook, tolerance] : {std::pair{bf16_hook(), 0.02}, {fp16_hook(), 0.002}}) {
      auto gradients = gradients_of(session.rank(), 0, 1000);
      all.bytes = 0;
      hook->average(all, 0, gradients);
      EXPECT_TRUE(torch::allclose(gradients, mean_of(3, 0, 1000), 0, tolerance));
      EXPECT_FALSE(torch::equal(gradients, mean_of(3, 0, 1000)));
      EXPECT_EQ(all.bytes, 2000U);
    }
    // A sum of three would be beyond what float16 can say.
    auto large = torch::full({4}, 60000.0F);
    fp16_hook()->average(all, 0, large);
    EXPECT_TRUE(torch::allclose(large, torch::full({4}, 60000.0F), 0.002));
  });
}

TEST(TopKHook, WhatStaysBehindComesLater) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    OverSession all(session);
    const auto hook = top_k_hook(0.1);
    auto sent = torch::zeros({200});
    auto wanted = torch::zeros({200});
    for (int step = 0; step < 40; ++step) {
      // After ten steps nothing new comes: what is left drains.
      auto gradients = step < 10 ? gradients_of(session.rank(), step, 200) : torch::zeros({200});
      if (step < 10) wanted += mean_of(2, step, 200);
      all.bytes = 0;
      hook->average(all, 0, gradients);
      EXPECT_EQ(all.bytes, 20U * 8);
      EXPECT_LE((gradients != 0).sum().item<int>(), 40);
      sent += gradients;
    }
    EXPECT_TRUE(torch::allclose(sent, wanted, 1e-4, 1e-4)) << (sent - wanted).abs().max();
  });
}

TEST(TopKHook, BucketsHaveResidualsOfTheirOwn) {
  run_sessions(1, net::Medium::memory, [](Session& session) {
    OverSession all(session);
    const auto hook = top_k_hook(0.5);
    auto first = torch::tensor({4.0F, 1.0F});
    hook->average(all, 0, first);
    EXPECT_TRUE(torch::equal(first, torch::tensor({4.0F, 0.0F})));
    auto second = torch::tensor({0.0F, 2.0F, 3.0F, 0.0F});
    hook->average(all, 1, second);
    auto again = torch::zeros({2});
    hook->average(all, 0, again);
    EXPECT_TRUE(torch::equal(again, torch::tensor({0.0F, 1.0F})));
  });
}

TEST(PowerSgdHook, WithAllColumnsItIsTheMean) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    OverSession all(session);
    auto gradients = gradients_of(session.rank(), 0, 90);  // of a matrix of 10 x 10
    power_sgd_hook(10)->average(all, 0, gradients);
    EXPECT_TRUE(torch::allclose(gradients, mean_of(2, 0, 90), 1e-3, 1e-4));
  });
}

TEST(PowerSgdHook, WithFewColumnsErrorsAreMadeGood) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    OverSession all(session);
    const auto hook = power_sgd_hook(2);
    auto sent = torch::zeros({10'000});
    const auto wanted = mean_of(2, 3, 10'000);
    for (int step = 1; step <= 30; ++step) {
      auto gradients = gradients_of(session.rank(), 3, 10'000);
      all.bytes = 0;
      hook->average(all, 0, gradients);
      EXPECT_EQ(all.bytes, 2U * 100 * 2 * sizeof(float));
      sent += gradients;
    }
    EXPECT_LT(((sent / 30 - wanted).norm() / wanted.norm()).item<float>(), 0.2F);
  });
}

TEST(Hooks, EveryProcessEndsWithTheSameBits) {
  for (const auto& make :
       {+[] { return bf16_hook(); }, +[] { return top_k_hook(0.05); }, +[] { return power_sgd_hook(2); }}) {
    run_sessions(3, net::Medium::memory, [&](Session& session) {
      OverSession all(session);
      const auto hook = make();
      auto gradients = gradients_of(session.rank(), 0, 500);
      hook->average(all, 0, gradients);
      const auto everybodys = session.all_gather(gradients);
      for (int r = 1; r < session.size(); ++r) EXPECT_TRUE(torch::equal(everybodys[r], everybodys[0]));
    });
  }
}

TEST(Hooks, RefuseWhatCannotBe) {
  EXPECT_THROW(top_k_hook(0), ConfigError);
  EXPECT_THROW(top_k_hook(1.5), ConfigError);
  EXPECT_THROW(power_sgd_hook(0), ConfigError);
}

}  // namespace
}  // namespace tutti::library
