#include "models/wide_deep.h"

#include <torch/nn.h>

#include "models/area_under_curve.h"

namespace tutti::models {

namespace F = torch::nn::functional;

namespace {

std::vector<Field> wide_deep_fields(const ModelOptions&) {
  return {{"numbers", DType::f32, {WideDeep::kNumbers}},
          {"categories", DType::i64, {WideDeep::kCategories}, WideDeep::kRows},
          {"click", DType::f32, {}}};
}

Measures measures() {
  const auto area = [](const Score& sums) { return area_under_curve(std::span(sums.counts).subspan(1)); };
  return {.counts = 1 + kScoreCounts,
          .figures = {mean_loss(), share("accuracy", 0), {.name = "auc", .of = area}}};
}

}  // namespace

WideDeep::WideDeep()
    : wide_(register_module("wide", torch::nn::Embedding(kRows, 1))),
      deep_(register_module("deep", torch::nn::Embedding(kRows, kWidth))),
      dense1_(register_module("dense1", torch::nn::Linear(kIn, kHidden1))),
      dense2_(register_module("dense2", torch::nn::Linear(kHidden1, kHidden2))),
      dense3_(register_module("dense3", torch::nn::Linear(kHidden2, 1))) {
  const torch::NoGradGuard no_grad;
  wide_->weight.zero_();
  deep_->weight.normal_(0, 0.05);
}

torch::Tensor WideDeep::forward(const Batch& batch) {
  const auto wide = wide_(batch[1]).sum({1, 2});
  auto x = torch::cat({batch[0], deep_(batch[1]).flatten(1)}, 1);
  x = dense1_(x).relu_();
  x = dense2_(x).relu_();
  return wide + dense3_(x).squeeze(1);
}

torch::Tensor WideDeep::loss(const Batch& batch) {
  return F::binary_cross_entropy_with_logits(forward(batch), batch[2]);
}

Score WideDeep::score(const Batch& batch) {
  const auto scores = forward(batch);
  const auto sum = F::binary_cross_entropy_with_logits(
      scores, batch[2], F::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kSum));
  const auto clicks = batch[2].gt(0.5);
  Score score{.loss = sum.item<double>(),
              .samples = static_cast<double>(scores.size(0)),
              .counts = {scores.gt(0).eq(clicks).sum().item<double>()}};
  const auto ranks = count_by_score(scores, clicks);
  score.counts.insert(score.counts.end(), ranks.begin(), ranks.end());
  return score;
}

std::vector<torch::Tensor> WideDeep::rows_read(const Batch& batch) const {
  const auto rows = batch[1].flatten();
  return {rows, rows};
}

ModelInfo wide_deep() {
  return {
      .name = "wide-deep",
      .summary = "clicks from 13 numbers and 26 hashed categories: a wide and a deep part, sparse embeddings",
      .parameters = WideDeep::kParameters,
      .flops_per_sample = WideDeep::kFlops,
      .data = "criteo",
      .has_tables = true,
      .measures = measures(),
      .takes = wide_deep_fields,
      .build = [](const ModelOptions&) { return std::make_shared<WideDeep>(); }};
}

}  // namespace tutti::models
