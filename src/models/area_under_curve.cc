#include "models/area_under_curve.h"

namespace tutti::models {
namespace {

constexpr double kStretch = 64;
constexpr double kBinsAUnit = 560;  // of the stretched scores: up to 17,000 logits

}  // namespace

std::vector<double> count_by_score(const torch::Tensor& scores, const torch::Tensor& positive) {
  const auto bins = ((scores * kStretch).asinh() * kBinsAUnit)
                        .nan_to_num()
                        .floor()
                        .add(kScoreBins / 2)
                        .clamp(0, kScoreBins - 1)
                        .to(torch::kInt64);
  const auto counts =
      torch::bincount(bins + positive * kScoreBins, {}, kScoreCounts).to(torch::kFloat64).cpu().contiguous();
  return {counts.data_ptr<double>(), counts.data_ptr<double>() + kScoreCounts};
}

double area_under_curve(std::span<const double> counts) {
  const auto negatives = counts.first(kScoreBins);
  const auto positives = counts.last(kScoreBins);
  double below = 0;  // negatives in lower bins
  double all_positives = 0;
  double won = 0;
  for (std::size_t b = 0; b < kScoreBins; ++b) {
    won += positives[b] * (below + negatives[b] / 2);
    below += negatives[b];
    all_positives += positives[b];
  }
  return won / (below * all_positives);
}

}  // namespace tutti::models
