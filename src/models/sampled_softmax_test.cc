#include "models/sampled_softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tutti::models {
namespace {

TEST(Candidates, AreDifferentWordsAndTheSameForASeed) {
  const auto a = draw_candidates(1000, 100, 7);
  EXPECT_EQ(std::set(a.words.begin(), a.words.end()).size(), 100U);
  EXPECT_GE(*std::ranges::min_element(a.words), 0);
  EXPECT_LT(*std::ranges::max_element(a.words), 1000);
  EXPECT_GE(a.draws, 100);
  EXPECT_EQ(draw_candidates(1000, 100, 7).words, a.words);
  EXPECT_NE(draw_candidates(1000, 100, 8).words, a.words);
}

TEST(Candidates, CanBeTheWholeVocabulary) {
  EXPECT_EQ(draw_candidates(50, 50, 1).words.size(), 50U);
}

// Of many sets of candidates, how many have a word, beside how many are expected to.
TEST(Candidates, ComeAsOftenAsExpected) {
  constexpr int kSets = 4000;
  constexpr std::int64_t kVocabulary = 200;
  std::vector<double> found(kVocabulary);
  auto expected = torch::zeros({kVocabulary}, torch::kFloat64);
  for (int i = 0; i < kSets; ++i) {
    const auto drawn = draw_candidates(kVocabulary, 20, static_cast<std::uint64_t>(i));
    for (const auto word : drawn.words) found[static_cast<std::size_t>(word)] += 1;
    expected += log_expected(torch::arange(kVocabulary), kVocabulary, drawn.draws).exp();
  }
  for (const std::int64_t word : {0, 1, 5, 20, 100, 199}) {
    const auto mean = expected[word].item<double>();
    EXPECT_NEAR(found[static_cast<std::size_t>(word)], mean, 5 * std::sqrt(mean)) << word;
  }
}

TEST(SampledSoftmax, IsThePlainLoss) {
  torch::manual_seed(1);
  constexpr std::int64_t kVocabulary = 30;
  const auto drawn = draw_candidates(kVocabulary, 6, 3);
  const auto words = torch::tensor({drawn.words[2], std::int64_t{29}, std::int64_t{4}}, torch::kInt64);
  const SampledScores scores = {torch::randn({3}), torch::randn({3, 6})};
  const auto corrected = [&](double score, std::int64_t word) {
    const auto w = static_cast<double>(word);
    const double p = (std::log(w + 2) - std::log(w + 1)) / std::log(31.0);
    return score - std::log(1 - std::pow(1 - p, static_cast<double>(drawn.draws)));
  };
  double sum = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto word = words[i].item<std::int64_t>();
    const double right = corrected(scores.right[i].item<double>(), word);
    double all = std::exp(right);
    for (std::int64_t c = 0; c < 6; ++c) {
      const auto candidate = drawn.words[static_cast<std::size_t>(c)];
      if (candidate != word) all += std::exp(corrected(scores.candidates[i][c].item<double>(), candidate));
    }
    sum += std::log(all) - right;
  }
  EXPECT_NEAR(sampled_softmax_loss(scores, words, drawn, kVocabulary).item<double>(), sum / 3, 1e-5);
}

// Every word is a candidate and surely expected, so nothing is left out or corrected.
TEST(SampledSoftmax, OverAllWordsIsTheFullLoss) {
  torch::manual_seed(2);
  constexpr std::int64_t kVocabulary = 12;
  auto drawn = draw_candidates(kVocabulary, kVocabulary, 1);
  drawn.draws = 100'000;
  const auto all = torch::randn({4, kVocabulary});
  const auto words = torch::tensor({0, 3, 11, 5}, torch::kInt64);
  const auto full = torch::nn::functional::cross_entropy(all, words).item<double>();
  const SampledScores scores = {all.gather(1, words.unsqueeze(1)).squeeze(1),
                                all.index_select(1, torch::tensor(drawn.words, torch::kInt64))};
  EXPECT_NEAR(sampled_softmax_loss(scores, words, drawn, kVocabulary).item<double>(), full, 1e-5);
}

}  // namespace
}  // namespace tutti::models
