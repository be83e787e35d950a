#include "models/mlp.h"

#include <torch/nn.h>

namespace tutti::models {
namespace {

namespace nn = torch::nn;

class Mlp final : public Classifier {
 public:
  explicit Mlp(const ModelOptions& o)
      : first_(register_module("dense1", nn::Linear(o.inputs, o.hidden))),
        second_(register_module("dense2", nn::Linear(o.hidden, o.hidden))),
        last_(register_module("dense3", nn::Linear(o.hidden, o.classes))) {}

  torch::Tensor forward(torch::Tensor features) override {
    return last_(second_(first_(features).relu_()).relu_());
  }

 private:
  nn::Linear first_, second_, last_;
};

constexpr ModelOptions kMlp{.classes = 3, .inputs = 5, .hidden = 64};

}  // namespace

ModelInfo mlp() {
  return {
      .name = "mlp",
      .summary = "a dense network for tables (csv:FILE, npy:X,Y): inputs, hidden, hidden, classes",
      .own = kMlp,
      .parameters = kMlp.inputs * kMlp.hidden + kMlp.hidden * kMlp.hidden + kMlp.hidden * kMlp.classes +
                    2 * kMlp.hidden + kMlp.classes,
      .flops_per_sample = 2.0 * static_cast<double>(kMlp.inputs * kMlp.hidden + kMlp.hidden * kMlp.hidden +
                                                    kMlp.hidden * kMlp.classes),
      .data = "sdss",
      .takes =
          [](const ModelOptions& o) {
            return std::vector<Field>{{"features", DType::f32, {o.inputs}},
                                      {"label", DType::i64, {}, o.classes}};
          },
      .build = [](const ModelOptions& o) { return std::make_shared<Mlp>(o); }};
}

}  // namespace tutti::models
