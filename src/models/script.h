// A network from a TorchScript file: how one made in Python trains here.
//
//   torch.jit.script(net).save("net.pt")
//
// Its forward() takes the fields of a batch but the last, which is what it learns, and gives scores; the loss
// is ours. The file is code that is run: SECURITY.md.
#pragma once

#include <filesystem>

#include "models/model.h"

namespace tutti::models {

// What is made of a network's scores.
enum class ScoreLoss {
  cross_entropy,  // a score for each class; the label is one of them
  mse,            // one number; the label is a number, too
  bce,            // one score (logit); the label is 0 or 1
};
// Throws ConfigError that lists the names.
ScoreLoss parse_loss(std::string_view name);

// Takes data as it is. Throws DataError that names the file if it cannot be loaded or has nothing to train.
ModelInfo script_model(const std::filesystem::path& file, ScoreLoss loss);

}  // namespace tutti::models
