// Layers in plain form, for tests to hold networks against, and what tests of networks share.
#pragma once

#include <gtest/gtest.h>
#include <torch/nn.h>

#include <string>
#include <vector>

#include "models/model.h"

namespace tutti::models {

// The layers of a model by the names of their weights.
class Plain {
 public:
  explicit Plain(const torch::nn::Module& model) : weights_(model.named_parameters()) {}

  bool has(const std::string& layer) const { return weights_.contains(layer + ".weight"); }

  // As patches times weights; a depthwise one as a sum of shifted images times weights.
  torch::Tensor convolve(const torch::Tensor& x, const std::string& layer, std::int64_t stride = 1,
                         std::int64_t padding = 0) const {
    const torch::Tensor w = weights_[layer + ".weight"];
    const auto height = (x.size(2) + 2 * padding - w.size(2)) / stride + 1;
    const auto width = (x.size(3) + 2 * padding - w.size(3)) / stride + 1;
    const auto patches = torch::im2col(x, w.sizes().slice(2), {1, 1}, {padding, padding}, {stride, stride});
    torch::Tensor y;
    if (w.size(1) == x.size(1)) {
      y = torch::matmul(w.flatten(1), patches);
    } else {
      y = (patches.view({x.size(0), x.size(1), -1, height * width}) * w.flatten(1).unsqueeze(2)).sum(2);
    }
    if (const auto* bias = weights_.find(layer + ".bias")) y = y + bias->unsqueeze(1);
    return y.view({x.size(0), w.size(0), height, width});
  }

  // With the statistics of the batch, as in training.
  torch::Tensor normalise(const torch::Tensor& x, const std::string& layer) const {
    const auto mean = x.mean({0, 2, 3}, true);
    const auto variance = (x - mean).square().mean({0, 2, 3}, true);
    const auto shaped = [&](const std::string& name) { return weights_[layer + name].view({1, -1, 1, 1}); };
    return (x - mean) / (variance + 1e-5).sqrt() * shaped(".weight") + shaped(".bias");
  }

  torch::Tensor dense(const torch::Tensor& x, const std::string& layer) const {
    return x.matmul(weights_[layer + ".weight"].t()) + weights_[layer + ".bias"];
  }

 private:
  torch::OrderedDict<std::string, torch::Tensor> weights_;
};

inline torch::Tensor scores(Model& model, const torch::Tensor& samples) {
  return dynamic_cast<Classifier&>(model).forward(samples);
}

inline torch::nn::SequentialImpl& stage(const torch::nn::Module& model, const std::string& name) {
  return *model.named_children()[name]->as<torch::nn::Sequential>();
}

using Shape = std::vector<std::int64_t>;  // without the samples

// Of what each pool among a model's features leaves of an image.
inline std::vector<Shape> pooled_shapes(const Model& model, torch::Tensor x) {
  std::vector<Shape> shapes;
  for (auto& layer : stage(model, "features")) {
    x = layer.forward(x);
    if (layer.ptr()->as<torch::nn::MaxPool2d>() != nullptr) shapes.push_back(x.sizes().slice(1).vec());
  }
  return shapes;
}

inline void expect_close(const torch::Tensor& a, const torch::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  const auto far = (a - b).abs().max().item<double>();
  EXPECT_LT(far, 1e-4 * std::max(1.0, b.abs().max().item<double>()));
}

// The loss on one batch falls to the given part of what it was.
inline void expect_learns(Model& model, const Batch& batch, int steps, double to_part) {
  torch::optim::Adam optimizer(model.parameters(), 1e-3);
  double before = 0;
  double last = 0;
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const auto loss = model.loss(batch);
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (i == 0) before = last;
  }
  EXPECT_LT(last, to_part * before);
}

inline Batch random_images(const ModelInfo& info, const ModelOptions& options, std::int64_t count) {
  const auto o = info.complete(options);
  return {torch::randn({count, o.channels, o.image_size, o.image_size}),
          torch::randint(o.classes, {count}, torch::kInt64)};
}

}  // namespace tutti::models
