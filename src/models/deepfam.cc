#include "models/deepfam.h"

#include <fmt/format.h>
#include <torch/nn.h>

#include "models/motif_scan.h"

namespace tutti::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kLength = 1000;
constexpr std::int64_t kPlaces = 21;
constexpr std::int64_t kLetters = 25;
constexpr std::int64_t kPadding = 24;
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

// A convolution of filters over places, which letters go through one by one.
class Filters final : public nn::Module {
 public:
  explicit Filters(std::int64_t width)
      : weight_(register_parameter("weight", torch::empty({kFilters, kPlaces, 1, width}))) {
    nn::init::xavier_uniform_(weight_);
  }

  // By width, letter and filter.
  torch::Tensor by_letter(const torch::Tensor& places) const {
    return torch::matmul(places, weight_.squeeze(2).permute({2, 1, 0}));
  }

 private:
  torch::Tensor weight_;
};

// Batch norm with a shift and no scale.
class ShiftNorm final : public nn::Module {
 public:
  explicit ShiftNorm(std::int64_t features)
      : bias_(register_parameter("bias", torch::zeros({features}))),
        mean_(register_buffer("running_mean", torch::zeros({features}))),
        variance_(register_buffer("running_var", torch::ones({features}))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    // One sample has no variance of its own, and dividing by none of it would leave NaN behind.
    const bool tracks = !is_training() || x.size(0) > 1;
    return torch::batch_norm(x, /*weight=*/{}, bias_, tracks ? mean_ : torch::Tensor(),
                             tracks ? variance_ : torch::Tensor(), is_training(), kMomentum, kEpsilon,
                             /*cudnn_enabled=*/true);
  }

  // Of the best scores: to normalise keeps the order, so the best of the normalised are these, normalised.
  torch::Tensor forward(const MotifScores& scores) {
    if (is_training()) {
      const torch::NoGradGuard no_grad;
      const auto count = static_cast<double>(scores.windows);
      mean_.lerp_(scores.mean, kMomentum);
      variance_.lerp_(scores.variance * (count / (count - 1)), kMomentum);
    }
    const auto& mean = is_training() ? scores.mean : mean_;
    const auto& variance = is_training() ? scores.variance : variance_;
    return (scores.best - mean) * (variance + kEpsilon).rsqrt() + bias_;
  }

 private:
  static constexpr double kMomentum = 0.1;
  static constexpr double kEpsilon = 0.001;
  torch::Tensor bias_, mean_, variance_;
};

class DeepFam final : public Classifier {
 public:
  explicit DeepFam(const ModelOptions& options)
      : hidden_(register_module("hidden", nn::Linear(nn::LinearOptions(kPooled, kHidden).bias(false)))),
        hidden_norm_(register_module("hidden_norm", std::make_shared<ShiftNorm>(kHidden))),
        dense_(register_module("dense", nn::Linear(kHidden, options.classes))) {
    for (const std::int64_t width : kWidths) {
      filters_.push_back(register_module(fmt::format("conv{}", width), std::make_shared<Filters>(width)));
      norms_.push_back(register_module(fmt::format("norm{}", width), std::make_shared<ShiftNorm>(kFilters)));
    }
    nn::init::xavier_uniform_(hidden_->weight);
    nn::init::xavier_uniform_(dense_->weight);
    nn::init::constant_(dense_->bias, 0.1);
  }

  torch::Tensor forward(torch::Tensor letters) override {
    const Sequences sequences(letters, kLetters, kPadding);
    std::vector<torch::Tensor> pooled;
    for (std::size_t i = 0; i < filters_.size(); ++i) {
      pooled.push_back(norms_[i]->forward(scan_motifs(sequences, filters_[i]->by_letter(places_))).relu());
    }
    const auto x = torch::dropout(torch::cat(pooled, 1), 0.3, is_training());
    return dense_(hidden_norm_->forward(hidden_(x)).relu_());
  }

  torch::Tensor loss(const Batch& batch) override {
    return Classifier::loss(batch) + 0.5 * kPenalty * hidden_->weight.square().sum();
  }

 private:
  const torch::Tensor places_ = places_of_letters();
  std::vector<std::shared_ptr<Filters>> filters_;
  std::vector<std::shared_ptr<ShiftNorm>> norms_;
  nn::Linear hidden_;
  std::shared_ptr<ShiftNorm> hidden_norm_;
  nn::Linear dense_;
};

std::vector<Field> deepfam_fields(const ModelOptions& options) {
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
          .takes = deepfam_fields,
          .build = [](const ModelOptions& o) { return std::make_shared<DeepFam>(o); }};
}

}  // namespace tutti::models
