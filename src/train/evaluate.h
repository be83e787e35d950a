// A model's figures over a part of the data, each rank on its share.
#pragma once

#include <map>
#include <string>

#include "collectives/communicator.h"
#include "data/samples.h"
#include "models/model.h"

namespace tutti::train {

struct Evaluation {
  std::map<std::string, double> figures;  // by name
  std::int64_t samples = 0;
};

// A collective call of `all`: all get the result. Null: this rank does it alone. Leaves the model in training
// mode.
Evaluation evaluate(models::Model& model, const models::Measures& measures, bool channels_last,
                    const data::Samples& samples, collectives::Communicator* all);

}  // namespace tutti::train
