#include "models/model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "models/mnist_cnn.h"

namespace tutti::models {
namespace {

constexpr double conv_flops(double out, double in_channels, double out_channels) {
  return 2 * out * out * out_channels * in_channels * 9;
}

}  // namespace

const std::vector<ModelInfo>& all_models() {
  static const std::vector<ModelInfo> models = {
      {.name = "mnist-cnn",
       .summary = "study B's network: three convolutions, three dense layers",
       .parameters = 690'590,
       .flops_per_sample = conv_flops(26, 1, 32) + conv_flops(11, 32, 128) + conv_flops(3, 128, 256) +
                           2.0 * (256 * 1000 + 1000 * 100 + 100 * 10),
       .channels = 1,
       .height = 28,
       .width = 28,
       .classes = 10,
       .channels_last = true},
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
  auto model = std::make_shared<MnistCnn>();
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
