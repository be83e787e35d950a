// What a step of a network computes.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_info.h"

namespace tutti::models {

// A batch as tensors, in the order of the model's fields; the first dimension is the samples'.
using Batch = std::vector<torch::Tensor>;

// A part of a step: what it makes small, and by which parameters.
struct Phase {
  std::string trains;  // those whose names begin with it, and with no earlier phase's
  std::function<torch::Tensor(const Batch&)> loss;
};

class Model : public torch::nn::Module {
 public:
  // What training makes small: the mean over the batch, of all phases together.
  virtual torch::Tensor loss(const Batch& batch) = 0;
  // A step's parts, in order: each sees what those before it have learned. One with all parameters, unless a
  // model says otherwise. The model outlives them.
  virtual std::vector<Phase> phases();
  // What evaluation counts, as the model's measures say.
  virtual Score score(const Batch& batch) = 0;
  // The rows that the batch reads of each embedding table, in the order of the tables among the parameters.
  // A model with tables has them; one int64 tensor each, with repetitions.
  virtual std::vector<torch::Tensor> rows_read(const Batch& batch) const;
};

// A model that tells classes apart: `forward` takes the first field of a batch and gives a score (logit) for
// each class; the last field is the right one.
class Classifier : public Model {
 public:
  virtual torch::Tensor forward(torch::Tensor samples) = 0;
  torch::Tensor loss(const Batch& batch) override;
  Score score(const Batch& batch) override;
  // The loss, not the score, takes the right class to have this much less than all of the probability, and
  // all classes together to share it (Szegedy et al. 2016). From 0 to below 1.
  void smooth_labels(double part) { label_smoothing_ = part; }

 private:
  double label_smoothing_ = 0;
};

// ModelInfo::make by name. Throws ConfigError also for an unknown name.
std::shared_ptr<Model> make_model(std::string_view name, const ModelOptions& options = {});

std::int64_t count_parameters(const torch::nn::Module& module);

}  // namespace tutti::models
