#include "models/gan_mnist.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn.h>

#include <cmath>

namespace tutti::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kNoise = 100, kUnits = 256, kSide = 28, kPixels = kSide * kSide;
constexpr std::int64_t kClasses = 10;  // that the data has; nobody looks at them
constexpr std::uint64_t kEvaluationSeed = 784;

struct TwoLayers : nn::Module {
  TwoLayers(std::int64_t in, std::int64_t out)
      : hidden(register_module("hidden", nn::Linear(in, kUnits))),
        last(register_module("last", nn::Linear(kUnits, out))) {
    for (auto& layer : {hidden, last}) {
      nn::init::normal_(layer->weight, 0, std::sqrt(2.0 / static_cast<double>(layer->weight.size(1))));
      nn::init::zeros_(layer->bias);
    }
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(hidden(x).relu_()); }

  nn::Linear hidden, last;
};

// How far scores are from calling all of it real, or all of it made up; one number a sample.
torch::Tensor unlike_real(const torch::Tensor& scores) {
  return torch::softplus(-scores);
}
torch::Tensor unlike_made(const torch::Tensor& scores) {
  return torch::softplus(scores);
}

class GanMnist final : public Model, public Generative {
 public:
  GanMnist()
      : generator_(register_module("generator", std::make_shared<TwoLayers>(kNoise, kPixels))),
        discriminator_(register_module("discriminator", std::make_shared<TwoLayers>(kPixels, 1))) {}

  std::vector<Phase> phases() override {
    return {{"discriminator.", [this](const Batch& b) { return discriminator_loss(b); }},
            {"generator.", [this](const Batch& b) { return generator_loss(b); }}};
  }

  torch::Tensor loss(const Batch& batch) override {
    return discriminator_loss(batch) + generator_loss(batch);
  }

  Score score(const Batch& batch) override {
    const auto samples = batch[0].size(0);
    const auto real = judge(batch[0].flatten(1));
    const auto made = judge(images_of(fixed_noise(samples)));
    const double discriminator = (unlike_real(real) + unlike_made(made)).sum().item<double>();
    const double generator = unlike_real(made).sum().item<double>();
    const double right = (real.gt(0).sum() + made.le(0).sum()).item<double>();
    return {.loss = discriminator + generator,
            .samples = static_cast<double>(samples),
            .counts = {right / 2, discriminator, generator}};
  }

  torch::Tensor draw(std::int64_t count) override {
    const torch::NoGradGuard no_grad;
    return images_of(fixed_noise(count)).view({count, kSide, kSide});
  }

 private:
  static torch::Tensor fixed_noise(std::int64_t samples) {
    return torch::rand({samples, kNoise}, at::detail::createCPUGenerator(kEvaluationSeed)) * 2 - 1;
  }
  static torch::Tensor noise_like(const torch::Tensor& images) {
    return torch::rand({images.size(0), kNoise}, images.options()) * 2 - 1;
  }

  torch::Tensor images_of(const torch::Tensor& noise) { return generator_->forward(noise).sigmoid(); }
  torch::Tensor judge(const torch::Tensor& images) { return discriminator_->forward(images).squeeze(1); }

  torch::Tensor discriminator_loss(const Batch& batch) {
    return (unlike_real(judge(batch[0].flatten(1))) + unlike_made(judge(images_of(noise_like(batch[0])))))
        .mean();
  }
  torch::Tensor generator_loss(const Batch& batch) {
    return unlike_real(judge(images_of(noise_like(batch[0])))).mean();
  }

  std::shared_ptr<TwoLayers> generator_, discriminator_;
};

constexpr std::int64_t weights_and_biases(std::int64_t in, std::int64_t out) {
  return (in + 1) * kUnits + (kUnits + 1) * out;
}

Measures measures() {
  auto discriminator = share("discriminator_loss", 1);
  auto generator = share("generator_loss", 2);
  discriminator.small_is_good = generator.small_is_good = true;
  return {.counts = 3, .figures = {mean_loss(), share("accuracy", 0), discriminator, generator}};
}

}  // namespace

ModelInfo gan_mnist() {
  constexpr double kGenerator = 2.0 * (kNoise * kUnits + kUnits * kPixels);
  constexpr double kDiscriminator = 2.0 * (kPixels * kUnits + kUnits);
  return {.name = "gan-mnist",
          .summary = "study D's networks against each other: a generator of digits and its judge",
          .parameters = weights_and_biases(kNoise, kPixels) + weights_and_biases(kPixels, 1),
          .flops_per_sample = 2 * kGenerator + 3 * kDiscriminator,  // of both phases
          .data = "mnist",
          .phases = 2,
          .measures = measures(),
          .takes = [](const ModelOptions&) -> std::vector<Field> {
            return {{"pixels", DType::f32, {1, kSide, kSide}}, {"label", DType::i64, {}, kClasses}};
          },
          .build = [](const ModelOptions&) { return std::make_shared<GanMnist>(); }};
}

}  // namespace tutti::models
