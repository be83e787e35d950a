#include "models/deepfam.h"

#include <fmt/format.h>

namespace tutti::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kLength = 1000;
constexpr std::int64_t kPlaces = 21;
constexpr std::int64_t kLetters = 25;
constexpr std::int64_t kWidths[] = {8, 12, 16, 20, 24, 28, 32, 36};
constexpr std::int64_t kFilters = 256;
constexpr std::int64_t kPooled = static_cast<std::int64_t>(std::size(kWidths)) * kFilters;
constexpr std::int64_t kHidden = 2000;
constexpr double kPenalty = 0.001;

// Letters by places. The amino acids are in the order ACDEFGHIKLMNPQRSTVWY.
torch::Tensor places_of_letters() {
  struct Half {
    std::int64_t letter, one, other;
  };
  constexpr Half kHalves[] = {{21, 2, 11}, {22, 3, 13}, {23, 7, 9}};  // B: D or N, Z: E or Q, J: I or L
  auto places = torch::eye(kLetters, kPlaces);
  for (const Half& h : kHalves) {
    places[h.letter][h.one] = 0.5;
    places[h.letter][h.other] = 0.5;
  }
  return places;
}

// Batch norm with a shift and no scale.
class ShiftNorm final : public nn::Module {
 public:
  explicit ShiftNorm(std::int64_t features)
      : bias_(register_parameter("bias", torch::zeros({features}))),
        mean_(register_buffer("running_mean", torch::zeros({features}))),
        variance_(register_buffer("running_var", torch::ones({features}))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::batch_norm(x, /*weight=*/{}, bias_, mean_, variance_, is_training(), /*momentum=*/0.1,
                             /*eps=*/0.001, /*cudnn_enabled=*/true);
  }

 private:
  torch::Tensor bias_, mean_, variance_;
};

class DeepFam final : public Classifier {
 public:
  explicit DeepFam(const ModelOptions& options)
      : hidden_(register_module("hidden", nn::Linear(nn::LinearOptions(kPooled, kHidden).bias(false)))),
        hidden_norm_(register_module("hidden_norm", std::make_shared<ShiftNorm>(kHidden))),
        dense_(register_module("dense", nn::Linear(kHidden, options.classes))) {
    for (const std::int64_t width : kWidths) {
      auto conv = nn::Conv2d(nn::Conv2dOptions(kPlaces, kFilters, {1, width}).bias(false));
      convolutions_.emplace_back(register_module(fmt::format("conv{}", width), conv));
      norms_.push_back(register_module(fmt::format("norm{}", width), std::make_shared<ShiftNorm>(kFilters)));
      nn::init::xavier_uniform_(conv->weight);
    }
    nn::init::xavier_uniform_(hidden_->weight);
    nn::init::xavier_uniform_(dense_->weight);
    nn::init::constant_(dense_->bias, 0.1);
  }

  torch::Tensor forward(torch::Tensor letters) override {
    // As images of one row, channels last: of libtorch's ways to convolve this, twice as fast as conv1d.
    const auto places =
        torch::embedding(places_.to(letters.device()), letters).unsqueeze(1).permute({0, 3, 1, 2});
    std::vector<torch::Tensor> pooled;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      pooled.push_back(norms_[i]->forward(convolutions_[i](places)).amax({2, 3}).relu());
    }
    const auto x = torch::dropout(torch::cat(pooled, 1), 0.3, is_training());
    return dense_(hidden_norm_->forward(hidden_(x)).relu_());
  }

  torch::Tensor loss(const Batch& batch) override {
    return Classifier::loss(batch) + 0.5 * kPenalty * hidden_->weight.square().sum();
  }

 private:
  const torch::Tensor places_ = places_of_letters();
  std::vector<nn::Conv2d> convolutions_;
  std::vector<std::shared_ptr<ShiftNorm>> norms_;
  nn::Linear hidden_;
  std::shared_ptr<ShiftNorm> hidden_norm_;
  nn::Linear dense_;
};

std::vector<Field> fields_of(const ModelOptions& options) {
  return {{"sequence", DType::i64, {kLength}, kLetters}, {"label", DType::i64, {}, options.classes}};
}

double flops_with(std::int64_t classes) {
  std::int64_t products = kPooled * kHidden + kHidden * classes;
  for (const std::int64_t width : kWidths) products += (kLength - width + 1) * width * kPlaces * kFilters;
  return 2.0 * static_cast<double>(products);
}

}  // namespace

ModelInfo deepfam() {
  return {.name = "deepfam",
          .summary = "study C's network: protein families by eight widths of convolutions over 1000 letters",
          .own = {.classes = 86},
          .parameters = 5'218'310,
          .flops_per_sample = flops_with(86),
          .data = "gpcr",
          .takes = fields_of,
          .build = [](const ModelOptions& o) { return std::make_shared<DeepFam>(o); }};
}

}  // namespace tutti::models
