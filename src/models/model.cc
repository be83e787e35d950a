#include "models/model.h"

#include <fmt/ranges.h>
#include <torch/nn.h>

#include <algorithm>

#include "base/error.h"
#include "models/plugin.h"
#include "models/script.h"

namespace tutti::models {

#define TUTTI_MODEL(name) ModelInfo name();
#include "models/models.inc"
#undef TUTTI_MODEL

namespace {

namespace F = torch::nn::functional;

struct Option {
  std::string_view name;
  std::int64_t ModelOptions::*value;
};

// Networks of a user's own, by what stands before the file's name.
struct OwnKind {
  std::string_view prefix;
  ModelInfo (*open)(const std::filesystem::path& file, ScoreLoss loss);
};
constexpr OwnKind kOwnKinds[] = {{"script:", script_model}, {"plugin:", plugin_model}};

constexpr Option kOptions[] = {
    {"classes", &ModelOptions::classes},     {"image size", &ModelOptions::image_size},
    {"channels", &ModelOptions::channels},   {"vocabulary", &ModelOptions::vocabulary},
    {"embedding", &ModelOptions::embedding}, {"hidden", &ModelOptions::hidden},
    {"unroll", &ModelOptions::unroll},       {"sampled", &ModelOptions::sampled},
    {"inputs", &ModelOptions::inputs},
};

std::string names_of_options(const ModelOptions& own) {
  std::vector<std::string_view> names;
  for (const Option& o : kOptions) {
    if (own.*o.value != 0) names.push_back(o.name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<Phase> Model::phases() {
  return {{"", [this](const Batch& batch) { return loss(batch); }}};
}

std::vector<torch::Tensor> Model::rows_read(const Batch&) const {
  return {};
}

torch::Tensor Classifier::loss(const Batch& batch) {
  return F::cross_entropy(forward(batch.front()), batch.back(),
                          F::CrossEntropyFuncOptions().label_smoothing(label_smoothing_));
}

Score Classifier::score(const Batch& batch) {
  const auto& classes = batch.back();
  const auto scores = forward(batch.front());
  const auto sum = F::cross_entropy(scores, classes, F::CrossEntropyFuncOptions().reduction(torch::kSum));
  const auto best = std::get<1>(scores.topk(std::min<std::int64_t>(5, scores.size(1)), 1));
  return {.loss = sum.item<double>(),
          .samples = static_cast<double>(classes.size(0)),
          .counts = {scores.argmax(1).eq(classes).sum().item<double>(),
                     best.eq(classes.unsqueeze(1)).sum().item<double>()}};
}

Figure mean_loss() {
  return {"loss", true, [](const Score& sums) { return sums.loss / sums.samples; }};
}

Figure share(std::string_view name, std::size_t place) {
  return {name, false, [place](const Score& sums) { return sums.counts[place] / sums.samples; }};
}

Measures classification() {
  return {.counts = 2, .figures = {mean_loss(), share("accuracy", 0), share("top5", 1)}};
}

ModelOptions ModelInfo::complete(const ModelOptions& options) const {
  ModelOptions all = own;
  for (const Option& o : kOptions) {
    const std::int64_t value = options.*o.value;
    if (value == 0) continue;
    if (own.*o.value == 0) {
      throw ConfigError(
          fmt::format("model {} has no option '{}'; it has: {}", name, o.name, names_of_options(own)));
    }
    if (value < 0) throw ConfigError(fmt::format("model {}: {} {} is below 1", name, o.name, value));
    all.*o.value = value;
  }
  if (all.image_size < least_image) {
    throw ConfigError(fmt::format("model {}: image size {} is too small; the least is {}", name,
                                  all.image_size, least_image));
  }
  return all;
}

const std::vector<ModelInfo>& all_models() {
  static const std::vector<ModelInfo> kModels = {
#define TUTTI_MODEL(name) name(),
#include "models/models.inc"
#undef TUTTI_MODEL
  };
  return kModels;
}

std::filesystem::path own_file(std::string_view name) {
  for (const OwnKind& kind : kOwnKinds) {
    if (name.starts_with(kind.prefix)) return name.substr(kind.prefix.size());
  }
  return {};
}

ModelInfo find_model(std::string_view name, std::string_view loss) {
  for (const OwnKind& kind : kOwnKinds) {
    if (name.starts_with(kind.prefix)) return kind.open(name.substr(kind.prefix.size()), parse_loss(loss));
  }
  const auto found = std::ranges::find(all_models(), name, &ModelInfo::name);
  if (found != all_models().end()) return *found;
  std::vector<std::string> names;
  for (const ModelInfo& m : all_models()) names.push_back(m.name);
  for (const OwnKind& kind : kOwnKinds) names.push_back(fmt::format("{}FILE", kind.prefix));
  throw ConfigError(fmt::format("unknown model '{}'; there are: {}", name, fmt::join(names, ", ")));
}

std::shared_ptr<Model> make_model(std::string_view name, const ModelOptions& options) {
  const ModelInfo info = find_model(name);
  auto model = info.make(options);
  if (options == ModelOptions{}) {
    TUTTI_CHECK(count_parameters(*model) == info.parameters, "{} has {} parameters", name,
                count_parameters(*model));
  }
  return model;
}

std::int64_t count_parameters(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const auto& p : module.parameters()) count += p.numel();
  return count;
}

}  // namespace tutti::models
