#include "models/unrolled_lstm.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>

#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

namespace nn = torch::nn;

// Outputs of a sequence, and the gradients of its inputs and of all weights.
std::vector<torch::Tensor> passes(nn::LSTM& lstm, const torch::Tensor& sequence, bool unrolled) {
  lstm->zero_grad(false);
  auto inputs = sequence.clone().requires_grad_();
  const auto outputs = unrolled ? unrolled_lstm(lstm, inputs) : std::get<0>(lstm(inputs));
  // Every output counts, each by another weight.
  torch::manual_seed(7);
  (outputs * torch::randn_like(outputs)).sum().backward();
  std::vector<torch::Tensor> all = {outputs.detach(), inputs.grad()};
  for (const auto& weight : lstm->parameters()) all.push_back(weight.grad().clone());
  return all;
}

class UnrolledLstm : public testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {};

TEST_P(UnrolledLstm, HasTheValuesAndGradientsOfLibtorch) {
  const auto [steps, projected_to] = GetParam();
  torch::manual_seed(1);
  nn::LSTM lstm(nn::LSTMOptions(5, 6).proj_size(projected_to));
  const auto sequence = torch::randn({steps, 3, 5});
  const auto plain = passes(lstm, sequence, false);
  const auto ours = passes(lstm, sequence, true);
  ASSERT_EQ(ours.size(), plain.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].sizes(), plain[i].sizes()) << i;
    EXPECT_LT((ours[i] - plain[i]).abs().max().item<double>(), 2e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, UnrolledLstm,
                         testing::Values(std::pair(1, 0), std::pair(7, 0), std::pair(1, 4), std::pair(7, 4)));

TEST(UnrolledLstm, RunsBackwardMoreThanOnceAndWithoutGradients) {
  torch::manual_seed(2);
  nn::LSTM lstm(nn::LSTMOptions(5, 6).proj_size(4));
  const auto sequence = torch::randn({4, 2, 5});
  const auto once = passes(lstm, sequence, true);
  const auto again = passes(lstm, sequence, true);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], again[i])) << i;
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(unrolled_lstm(lstm, sequence), once[0]));
}

TEST(UnrolledLstm, LeavesAutocastToLibtorch) {
  torch::manual_seed(3);
  nn::LSTM lstm(5, 6);
  const auto sequence = torch::randn({4, 2, 5});
  const bool excluded = c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU);
  ASSERT_TRUE(excluded);
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, false);
  const auto ours = unrolled_lstm(lstm, sequence);
  const auto plain = std::get<0>(lstm(sequence));
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, excluded);
  EXPECT_TRUE(torch::equal(ours, plain));
}

}  // namespace
}  // namespace tutti::models
