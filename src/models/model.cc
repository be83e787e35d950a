#include "models/model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "models/mnist_cnn.h"
#include "models/wide_deep.h"

namespace tutti::models {
namespace {

namespace F = torch::nn::functional;

constexpr double conv_flops(double out, double in_channels, double out_channels) {
  return 2 * out * out * out_channels * in_channels * 9;
}

std::vector<Field> images(std::int64_t channels, std::int64_t size, std::int64_t classes) {
  return {{"image", DType::f32, {channels, size, size}}, {"label", DType::i64, {}, classes}};
}

template <class M>
std::shared_ptr<Model> make() {
  return std::make_shared<M>();
}

}  // namespace

std::vector<torch::Tensor> Model::rows_read(const Batch&) const {
  return {};
}

torch::Tensor Classifier::loss(const Batch& batch) {
  return F::cross_entropy(forward(batch[0]), batch[1]);
}

Score Classifier::score(const Batch& batch) {
  const auto scores = forward(batch[0]);
  const auto sum = F::cross_entropy(scores, batch[1], F::CrossEntropyFuncOptions().reduction(torch::kSum));
  return {sum.item<double>(), scores.argmax(1).eq(batch[1]).sum().item<double>(),
          static_cast<double>(batch[1].size(0))};
}

const std::vector<ModelInfo>& all_models() {
  static const std::vector<ModelInfo> models = {
      {.name = "mnist-cnn",
       .summary = "study B's network: three convolutions, three dense layers",
       .parameters = 690'590,
       .flops_per_sample = conv_flops(26, 1, 32) + conv_flops(11, 32, 128) + conv_flops(3, 128, 256) +
                           2.0 * (256 * 1000 + 1000 * 100 + 100 * 10),
       .fields = images(1, 28, 10),
       .data = "fashion-mnist",
       .channels_last = true,
       .make = make<MnistCnn>},
      {.name = "wide-deep",
       .summary =
           "clicks from 13 numbers and 26 hashed categories: a wide and a deep part, sparse embeddings",
       .parameters = WideDeep::kParameters,
       .flops_per_sample = WideDeep::kFlops,
       .fields = WideDeep::fields(),
       .data = "synthetic",
       .make = make<WideDeep>},
  };
  return models;
}

const ModelInfo& find_model(std::string_view name) {
  const auto found = std::ranges::find(all_models(), name, &ModelInfo::name);
  if (found != all_models().end()) return *found;
  std::vector<std::string_view> names;
  for (const ModelInfo& m : all_models()) names.push_back(m.name);
  throw ConfigError(fmt::format("unknown model '{}'; there are: {}", name, fmt::join(names, ", ")));
}

std::shared_ptr<Model> make_model(std::string_view name) {
  const ModelInfo& info = find_model(name);
  auto model = info.make();
  TUTTI_CHECK(count_parameters(*model) == info.parameters, "{} has {} parameters", name,
              count_parameters(*model));
  return model;
}

std::int64_t count_parameters(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& p : module.parameters()) count += p.numel();
  return count;
}

}  // namespace tutti::models
