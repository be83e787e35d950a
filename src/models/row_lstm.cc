#include "models/row_lstm.h"

#include <torch/nn.h>

#include "models/layers.h"
#include "models/unrolled_lstm.h"

namespace tutti::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kRowUnits = 64;

class RowLstm final : public Classifier {
 public:
  explicit RowLstm(const ModelOptions& options)
      : lstm_(register_module("lstm", nn::LSTM(options.image_size, kRowUnits))),
        dense_(register_module("dense", nn::Linear(kRowUnits, options.classes))) {}

  torch::Tensor forward(torch::Tensor images) override {
    const auto rows = images.squeeze(1).transpose(0, 1).contiguous();
    return dense_(unrolled_lstm(lstm_, rows)[-1]);
  }

 private:
  nn::LSTM lstm_;
  nn::Linear dense_;
};

std::vector<Field> grey_image_fields(ModelOptions options) {
  options.channels = 1;
  return image_fields(options);
}

}  // namespace

ModelInfo rnn_mnist() {
  return {.name = "rnn-mnist",
          .summary = "study D's network: an LSTM of 64 units over the rows of an image",
          .own = {.classes = 10, .image_size = 28},
          .parameters = 24'714,
          .flops_per_sample = 2.0 * (kRowUnits * 4 * 28 * (28 + kRowUnits) + kRowUnits * 10),
          .data = "mnist",
          .takes = grey_image_fields,
          .build = [](const ModelOptions& o) { return std::make_shared<RowLstm>(o); }};
}

}  // namespace tutti::models
