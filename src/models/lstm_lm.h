// A language model for large vocabularies (Jozefowicz et al. 2016), the workload that Parallax reports.
//
//   words -> embedding, 512 each -> LSTM of 2048 units, projected to 512 -> softmax over the vocabulary
//
// A sample is a run of words, of which each but the last predicts the next; the state begins at zero.
// Training uses the sampled softmax (sampled_softmax.h), so that a step touches few rows of the embedding, of
// the softmax weights and of the softmax bias. Words are numbered by frequency, the most frequent first.
//
// The candidates are drawn from the words of the batch alone: whoever has the batch knows which rows a step
// reads.
#pragma once

#include "models/model.h"
#include "models/sampled_softmax.h"

namespace tutti::models {

ModelInfo lstm_lm();

// What stands for the vocabulary in a training step on these tokens.
Candidates candidates_for(const torch::Tensor& tokens, const ModelOptions& options);

}  // namespace tutti::models
