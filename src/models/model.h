// Networks by name, and what a step of each computes.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/field.h"

namespace tutti::models {

// A batch as tensors, in the order of the model's fields; the first dimension is the samples'.
using Batch = std::vector<torch::Tensor>;

// Sums over the samples of a batch.
struct Score {
  double loss = 0;
  double correct = 0;
  double samples = 0;
};

class Model : public torch::nn::Module {
 public:
  // What training makes small: the mean over the batch.
  virtual torch::Tensor loss(const Batch& batch) = 0;
  // What evaluation counts.
  virtual Score score(const Batch& batch) = 0;
  // The rows that the batch reads of each embedding table, in the order of the tables among the parameters.
  // A model with tables has them; one int64 tensor each, with repetitions.
  virtual std::vector<torch::Tensor> rows_read(const Batch& batch) const;
};

// A model for images of classes: `forward` gives a score (logit) for each class.
class Classifier : public Model {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
  torch::Tensor loss(const Batch& batch) override;
  Score score(const Batch& batch) override;
};

struct ModelInfo {
  std::string_view name;
  std::string_view summary;
  std::int64_t parameters = 0;  // checked when the model is made
  double flops_per_sample = 0;  // forward, multiply and add counted apart
  std::vector<Field> fields;    // what it takes; the last is what it learns
  std::string_view data;        // a data set that fits
  bool channels_last = false;   // the memory format that is faster on CPUs
  std::shared_ptr<Model> (*make)() = nullptr;
};

const std::vector<ModelInfo>& all_models();

// Throws ConfigError that lists the names.
const ModelInfo& find_model(std::string_view name);

// A fresh network with weights drawn from torch's generator. Throws ConfigError for an unknown name.
std::shared_ptr<Model> make_model(std::string_view name);

std::int64_t count_parameters(const torch::nn::Module& module);

}  // namespace tutti::models
