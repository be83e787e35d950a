// Softmax over a large vocabulary, of which a step looks at a few words (Jean et al. 2015).
//
// Words are numbered by frequency, the most frequent first. A few *candidates* are drawn, frequent words more
// often, and stand for all words: the right word has to win against them. A candidate that is drawn often
// would lose too often, so from each score the log of how often its word is expected among the candidates is
// taken. What is minimised then tends, with many candidates, to the loss over all words.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace tutti::models {

struct Candidates {
  std::vector<std::int64_t> words;  // all different
  std::int64_t draws = 0;           // that it took to find them
};

// `count` different words below `vocabulary`, word w with probability log((w + 2) / (w + 1)) / log(vocabulary
// + 1) in each draw. Takes nothing but the seed.
Candidates draw_candidates(std::int64_t vocabulary, std::int64_t count, std::uint64_t seed);

// The log of how often each word is expected among candidates that took so many draws.
torch::Tensor log_expected(const torch::Tensor& words, std::int64_t vocabulary, std::int64_t draws);

// Scores (logits) of some positions in a text.
struct SampledScores {
  torch::Tensor right;       // positions: of the word that is there
  torch::Tensor candidates;  // positions x candidates
};

// The mean loss. `words` are those that are there. A candidate that is the right word itself does not count
// against it.
torch::Tensor sampled_softmax_loss(const SampledScores& scores, const torch::Tensor& words,
                                   const Candidates& candidates, std::int64_t vocabulary);

}  // namespace tutti::models
