// What networks of a user's own are tried on: three numbers a sample, two classes.
#pragma once

#include "models/model.h"

namespace tutti::models {

inline const Batch kBatch = {torch::linspace(-1, 1, 24).view({8, 3}),
                             torch::tensor({0, 0, 0, 0, 1, 1, 1, 1}, torch::kInt64)};

// Makes 50 steps. The loss after them as a part of what it was before.
inline double loss_left_after_training(Model& model) {
  torch::optim::SGD sgd(model.parameters(), 0.5);
  const double before = model.loss(kBatch).item<double>();
  for (int i = 0; i < 50; ++i) {
    sgd.zero_grad();
    model.loss(kBatch).backward();
    sgd.step();
  }
  return model.loss(kBatch).item<double>() / before;
}

}  // namespace tutti::models
