#include "models/sdss_dnn.h"

#include <torch/nn.h>

namespace tutti::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kBands = 5;
constexpr std::int64_t kWide = 128;
constexpr std::int64_t kNarrow = 64;

class SdssDnn final : public Classifier {
 public:
  explicit SdssDnn(const ModelOptions& options)
      : dense1_(register_module("dense1", nn::Linear(kBands, kWide))),
        dense2_(register_module("dense2", nn::Linear(kWide, kWide))),
        dense3_(register_module("dense3", nn::Linear(kWide, kNarrow))),
        dense4_(register_module("dense4", nn::Linear(kNarrow, options.classes))) {}

  torch::Tensor forward(torch::Tensor features) override {
    auto x = dense1_(features).relu_();
    x = dense2_(x).relu_();
    x = dense3_(x).relu_();
    return dense4_(x);
  }

 private:
  nn::Linear dense1_, dense2_, dense3_, dense4_;
};

std::vector<Field> sdss_dnn_fields(const ModelOptions& options) {
  return {{"features", DType::f32, {kBands}}, {"label", DType::i64, {}, options.classes}};
}

}  // namespace

ModelInfo sdss_dnn() {
  return {.name = "sdss-dnn",
          .summary = "study E's dense network on photometry: 5, 128, 128, 64, 3",
          .own = {.classes = 3},
          .parameters = 25'731,
          .flops_per_sample = 2.0 * (kBands * kWide + kWide * kWide + kWide * kNarrow + kNarrow * 3),
          .data = "sdss",
          .takes = sdss_dnn_fields,
          .build = [](const ModelOptions& o) { return std::make_shared<SdssDnn>(o); }};
}

}  // namespace tutti::models
