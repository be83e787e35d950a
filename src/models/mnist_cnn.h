// The network of study B (MPI data parallelism on MNIST): 690,590 parameters.
//
//   28x28x1 -conv3x3-> 26x26x32 -pool-> 13 -conv3x3-> 11x11x128 -pool-> 5 -conv3x3-> 3x3x256 -pool-> 1x1x256
//   -dropout 0.5-> dense 1000 -> dense 100 -> dense 10, ReLU after every layer but the last.
#pragma once

#include "models/model.h"

namespace tutti::models {

class MnistCnn final : public Classifier {
 public:
  explicit MnistCnn(const ModelOptions& options);
  torch::Tensor forward(torch::Tensor images) override;

 private:
  torch::nn::Conv2d conv1_, conv2_, conv3_;
  torch::nn::Linear dense1_, dense2_, dense3_;
};

ModelInfo mnist_cnn();

}  // namespace tutti::models
