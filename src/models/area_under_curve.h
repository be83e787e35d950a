// The area under the ROC curve, from counts that add up over batches and workers.
//
// It is the chance that a positive sample is scored above a negative one, ties counting half. Scores (logits)
// are counted in narrow bins, positives and negatives apart; two samples in one bin count as a tie.
#pragma once

#include <torch/types.h>

#include <span>
#include <vector>

namespace tutti::models {

// Narrowest around zero, where they are 1/35,000 of a logit wide, and wider in proportion far from it (1/100
// at five); the outermost ones also take what lies beyond.
inline constexpr std::int64_t kScoreBins = 1 << 14;
inline constexpr std::size_t kScoreCounts = 2 * kScoreBins;

// Negatives by bin, then positives by bin. `positive` is bool, one for each score.
std::vector<double> count_by_score(const torch::Tensor& scores, const torch::Tensor& positive);

// Not a number if there are only positives or only negatives.
double area_under_curve(std::span<const double> counts);

}  // namespace tutti::models
