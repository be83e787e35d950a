#include "models/motif_scan.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

constexpr std::int64_t kPlaces = 40;
constexpr std::int64_t kLetters = 6;
constexpr std::int64_t kPadding = 5;
constexpr std::int64_t kMotifs = 64;

// Whole, half and single letters, and none.
torch::Tensor some_letters() {
  auto letters = torch::randint(kPadding, {5, kPlaces}, torch::kInt64);
  letters[1].slice(0, kPlaces / 2).fill_(kPadding);
  letters[2].slice(0, 1).fill_(kPadding);
  letters[3].fill_(kPadding);
  return letters;
}

torch::Tensor some_table(std::int64_t width) {
  auto table = torch::randn({width, kLetters, kMotifs});
  table.select(1, kPadding).zero_();
  return table.requires_grad_();
}

// By a convolution over letters one hot.
MotifScores plain_scores(const torch::Tensor& letters, const torch::Tensor& table) {
  const auto one_hot = torch::one_hot(letters, kLetters).to(torch::kFloat32).transpose(1, 2);
  const auto y = torch::conv1d(one_hot, table.permute({2, 1, 0}));
  const auto of_motif = y.transpose(0, 1).flatten(1);
  return {std::get<0>(y.max(2)), of_motif.mean(1), of_motif.var(1, /*unbiased=*/false), of_motif.size(1)};
}

// A loss that treats no two numbers alike.
torch::Tensor loss_of(const MotifScores& s) {
  const auto weigh = [](const torch::Tensor& x) {
    return (x * x * torch::arange(1, x.numel() + 1).view_as(x)).sum();
  };
  return weigh(s.best) / 100 + weigh(s.mean) + weigh(s.variance);
}

// The padding has no scores to learn.
torch::Tensor learned(const torch::Tensor& table) {
  return table.grad().slice(1, 0, kPadding).clone();
}

TEST(MotifScan, IsAConvolutionOverLettersOneHot) {
  torch::manual_seed(1);
  for (const std::int64_t width : {1, 7, 40}) {
    const auto letters = some_letters();
    const auto table = some_table(width);
    const auto expected = plain_scores(letters, table);
    loss_of(expected).backward();
    const auto expected_gradient = learned(table);
    table.mutable_grad().zero_();

    const auto scores = scan_motifs(Sequences(letters, kLetters, kPadding), table);
    loss_of(scores).backward();
    EXPECT_EQ(scores.windows, expected.windows);
    expect_close(scores.best, expected.best);
    expect_close(scores.mean, expected.mean);
    expect_close(scores.variance, expected.variance);
    expect_close(learned(table), expected_gradient);
  }
}

TEST(MotifScan, GradientsOfOneResultAlone) {
  torch::manual_seed(2);
  const auto letters = some_letters();
  const auto table = some_table(9);
  plain_scores(letters, table).best.square().sum().backward();
  const auto expected = learned(table);
  table.mutable_grad().zero_();
  scan_motifs(Sequences(letters, kLetters, kPadding), table).best.square().sum().backward();
  expect_close(learned(table), expected);
}

TEST(MotifScan, HasTheSameBitsOnAnyNumberOfThreads) {
  torch::manual_seed(3);
  const auto letters = some_letters();
  const auto table = some_table(12);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    if (table.grad().defined()) table.mutable_grad().zero_();
    const auto scores = scan_motifs(Sequences(letters, kLetters, kPadding), table);
    loss_of(scores).backward();
    return torch::cat({scores.best.flatten(), scores.mean, scores.variance, table.grad().flatten()});
  };
  const auto alone = run(1);
  EXPECT_TRUE(run(2).equal(alone));
  at::set_num_threads(1);
}

TEST(MotifScan, RefusesLettersOutsideTheAlphabet) {
  for (const std::int64_t letter : {std::int64_t{-1}, kLetters, std::int64_t{256}}) {
    auto letters = some_letters();
    letters[4][7] = letter;
    EXPECT_THROW(Sequences(letters, kLetters, kPadding), std::logic_error) << letter;
  }
}

}  // namespace
}  // namespace tutti::models
