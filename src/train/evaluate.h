// Loss and accuracy over a data set, each rank on its part.
#pragma once

#include "collectives/communicator.h"
#include "data/decode.h"
#include "models/model.h"

namespace tutti::train {

struct Evaluation {
  double loss = 0;      // mean over all samples
  double accuracy = 0;  // 0 to 1
  std::int64_t samples = 0;
};

// The strides that make a batch of count images `channels_last`, or row-major.
torch::Tensor as_images(const float* pixels, std::int64_t count, const models::ModelInfo& info,
                        bool channels_last);

// A collective call of `all`: all get the result. Null: this rank does it alone. Leaves the model in training
// mode.
Evaluation evaluate(models::Model& model, const models::ModelInfo& info, bool channels_last,
                    const data::ImageSet& set, const data::PixelTable& table, collectives::Communicator* all);

}  // namespace tutti::train
