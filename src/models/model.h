// Networks by name.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::models {

// A network for images of channels x height x width. `forward` gives class scores (logits).
class Model : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

struct ModelInfo {
  std::string_view name;
  std::string_view summary;
  std::int64_t parameters = 0;  // checked when the model is made
  double flops_per_sample = 0;  // forward, multiply and add counted apart
  std::int64_t channels = 0, height = 0, width = 0, classes = 0;
  bool channels_last = false;  // the memory format that is faster on CPUs
};

const std::vector<ModelInfo>& all_models();

// Throws ConfigError that lists the names.
const ModelInfo& find_model(std::string_view name);

// A fresh network with weights drawn from torch's generator. Throws ConfigError for an unknown name.
std::shared_ptr<Model> make_model(std::string_view name);

std::int64_t count_parameters(const torch::nn::Module& module);

}  // namespace tutti::models
