#include "models/sampled_softmax.h"

#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/error.h"
#include "base/random.h"

namespace tutti::models {
namespace {

// In [0, 1), a multiple of 2^-53.
double uniform(SplitMix64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

}  // namespace

Candidates draw_candidates(std::int64_t vocabulary, std::int64_t count, std::uint64_t seed) {
  TUTTI_CHECK(count <= vocabulary, "{} of {}", count, vocabulary);
  SplitMix64 random(seed);
  Candidates drawn;
  std::unordered_set<std::int64_t> seen;
  const double log_range = std::log(static_cast<double>(vocabulary) + 1);
  while (static_cast<std::int64_t>(drawn.words.size()) < count) {
    ++drawn.draws;
    const auto word = static_cast<std::int64_t>(std::exp(uniform(random) * log_range)) - 1;
    if (word < vocabulary && seen.insert(word).second) drawn.words.push_back(word);
  }
  return drawn;
}

torch::Tensor log_expected(const torch::Tensor& words, std::int64_t vocabulary, std::int64_t draws) {
  const auto w = words.to(torch::kFloat64);
  const auto probability = ((w + 2) / (w + 1)).log() / std::log(static_cast<double>(vocabulary) + 1);
  // 1 - (1 - p)^draws
  const auto expected = -torch::expm1(static_cast<double>(draws) * torch::log1p(-probability));
  return expected.log().to(torch::kFloat32);
}

torch::Tensor sampled_softmax_loss(const SampledScores& scores, const torch::Tensor& words,
                                   const Candidates& candidates, std::int64_t vocabulary) {
  const auto drawn = torch::tensor(candidates.words, torch::kInt64).to(words.device());
  const auto right = scores.right - log_expected(words, vocabulary, candidates.draws);
  const auto others = (scores.candidates - log_expected(drawn, vocabulary, candidates.draws))
                          .masked_fill(words.unsqueeze(1).eq(drawn), -std::numeric_limits<float>::infinity());
  return (torch::logsumexp(torch::cat({right.unsqueeze(1), others}, 1), 1) - right).mean();
}

}  // namespace tutti::models
