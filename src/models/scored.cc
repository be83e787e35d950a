#include "models/scored.h"

#include <torch/nn.h>

#include <array>
#include <sstream>

#include "base/error.h"

namespace tutti::models {
namespace {

namespace F = torch::nn::functional;

struct NamedLoss {
  std::string_view name;
  ScoreLoss loss;
};
constexpr std::array kLosses{NamedLoss{"cross-entropy", ScoreLoss::cross_entropy},
                             NamedLoss{"mse", ScoreLoss::mse}, NamedLoss{"bce", ScoreLoss::bce}};

void require_shape(ScoreLoss loss, const torch::Tensor& scores, const torch::Tensor& label) {
  const bool classes = loss == ScoreLoss::cross_entropy;
  const bool fits =
      classes ? scores.dim() == 2 && scores.size(0) == label.size(0) : scores.numel() == label.numel();
  if (fits && (!classes || label.max().item<std::int64_t>() < scores.size(1))) return;
  std::ostringstream shape;
  shape << scores.sizes();
  throw ConfigError(fmt::format("the network gives scores of shape {} for {} samples; this loss wants {}",
                                shape.str(), label.size(0),
                                classes ? "one for each class of the data" : "one a sample"));
}

torch::Tensor loss_of(ScoreLoss loss, const torch::Tensor& scores, const torch::Tensor& label, bool summed) {
  require_shape(loss, scores, label);
  switch (loss) {
    case ScoreLoss::cross_entropy: {
      F::CrossEntropyFuncOptions options;
      if (summed) options.reduction(torch::kSum);
      return F::cross_entropy(scores, label, options);
    }
    case ScoreLoss::mse: {
      F::MSELossFuncOptions options;
      if (summed) options.reduction(torch::kSum);
      return F::mse_loss(scores.view_as(label), label.to(scores.scalar_type()), options);
    }
    case ScoreLoss::bce: {
      F::BinaryCrossEntropyWithLogitsFuncOptions options;
      if (summed) options.reduction(torch::kSum);
      return F::binary_cross_entropy_with_logits(scores.view_as(label), label.to(scores.scalar_type()),
                                                 options);
    }
  }
  return {};
}

Measures measures_of(ScoreLoss loss) {
  if (loss == ScoreLoss::cross_entropy) return classification();
  if (loss == ScoreLoss::mse) return {.counts = 0, .figures = {mean_loss()}};
  return {.counts = 1, .figures = {mean_loss(), share("accuracy", 0)}};
}

}  // namespace

ScoreLoss parse_loss(std::string_view name) {
  std::string names;
  for (const auto& l : kLosses) {
    if (l.name == name) return l.loss;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", l.name);
  }
  throw ConfigError(fmt::format("no loss is called '{}'; there are {}", name, names));
}

torch::Tensor ScoredModel::loss(const Batch& batch) {
  return loss_of(loss_, scores(batch), batch.back(), false);
}

Score ScoredModel::score(const Batch& batch) {
  const auto given = scores(batch);
  const auto& label = batch.back();
  Score sums{.loss = loss_of(loss_, given, label, true).item<double>(),
             .samples = static_cast<double>(label.size(0))};
  if (loss_ == ScoreLoss::cross_entropy) {
    const auto best = std::get<1>(given.topk(std::min<std::int64_t>(5, given.size(1)), 1));
    sums.counts = {given.argmax(1).eq(label).sum().item<double>(),
                   best.eq(label.unsqueeze(1)).sum().item<double>()};
  } else if (loss_ == ScoreLoss::bce) {
    sums.counts = {given.view_as(label).gt(0).eq(label.gt(0)).sum().item<double>()};
  }
  return sums;
}

ModelInfo info_of(const std::filesystem::path& file, ScoreLoss loss, OwnNetwork network) {
  if (network.trained == 0) {
    throw DataError(fmt::format("{}: the network has no parameters to train", file.string()));
  }
  ModelInfo info;
  info.name = fmt::format("{}{}", network.prefix, file.string());
  info.summary = network.summary;
  info.parameters = network.trained;
  info.measures = measures_of(loss);
  info.build = [make = std::move(network.make)](const ModelOptions&) { return make(); };
  return info;
}

std::string first_line(const std::exception& e) {
  const std::string text = e.what();
  return text.substr(0, text.find('\n'));
}

std::filesystem::path existing_file(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    throw DataError(fmt::format("{}: there is no such file", file.string()));
  }
  return std::filesystem::absolute(file);
}

}  // namespace tutti::models
