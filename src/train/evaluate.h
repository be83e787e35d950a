// A model's figures over a part of the data, each rank on its share.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "collectives/collectives.h"
#include "data/samples.h"
#include "models/model.h"

namespace tutti::train {

struct Evaluation {
  std::map<std::string, double> figures;  // by name
  std::int64_t samples = 0;
};

// What is evaluated, and how. What it refers to outlives the call.
struct EvaluationSetup {
  const models::Measures& measures;
  bool channels_last = false;
  const data::Samples& samples;
  int shards = 0;  // above 0: in so many parts, whoever computes them, so that the bits depend on that alone
};

// A collective call of `all`: all get the result. Null: this rank does it alone. Leaves the model in training
// mode. `on_batch` hears of each of this rank's batches before it is computed: which it is, from 1, and of
// how many.
Evaluation evaluate(models::Model& model, const EvaluationSetup& setup, collectives::Collectives* all,
                    const std::function<void(std::size_t batch, std::size_t batches)>& on_batch);

}  // namespace tutti::train
