// Loss and accuracy over a part of the data, each rank on its share.
#pragma once

#include "collectives/communicator.h"
#include "data/samples.h"
#include "models/model.h"

namespace tutti::train {

struct Evaluation {
  double loss = 0;      // mean over all samples
  double accuracy = 0;  // 0 to 1
  std::int64_t samples = 0;
};

// A collective call of `all`: all get the result. Null: this rank does it alone. Leaves the model in training
// mode.
Evaluation evaluate(models::Model& model, bool channels_last, const data::Samples& samples,
                    collectives::Communicator* all);

}  // namespace tutti::train
