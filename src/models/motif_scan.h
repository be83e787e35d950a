// Motifs that slide over sequences of letters: a motif has a score for every letter at each of its places,
// and scores a window by their sum. It is what a convolution over letters one hot computes, a sum of rows
// instead of a product with zeros. What is kept of a batch is small: as tensors, the scores of eight widths
// of motifs are 820 MB for 100 sequences of 1000 letters, written and read ten times a step.
#pragma once

#include <torch/types.h>

namespace tutti::models {

struct Sequences {
  // `letters` is sequences x places, each below `alphabet`, padded at the end by the letter `padding`.
  Sequences(const torch::Tensor& letters, std::int64_t alphabet, std::int64_t padding);

  torch::Tensor letters;  // bytes
  torch::Tensor lengths;  // without the padding
};

struct MotifScores {
  torch::Tensor best;            // sequences x motifs: of all windows, the first of the highest
  torch::Tensor mean, variance;  // by motif, over all sequences and windows; the variance of the batch itself
  std::int64_t windows = 0;      // of all sequences
};

// On the processor. `table` is places x letters x motifs, as many letters as the sequences' alphabet and a
// multiple of 32 motifs, zero for the padding. Gradients flow from all three results. Computes on
// at::get_num_threads() threads, which it starts and ends; the bits do not depend on their number.
MotifScores scan_motifs(const Sequences& sequences, const torch::Tensor& table);

}  // namespace tutti::models
