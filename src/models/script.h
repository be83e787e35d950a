// A network from a TorchScript file: how one made in Python trains here.
//
//   torch.jit.script(net).save("net.pt")
//
// Its forward() takes the fields of a batch but the last, which is what it learns, and gives scores; the loss
// is ours. The file is code that is run: SECURITY.md.
#pragma once

#include <filesystem>

#include "models/scored.h"

namespace tutti::models {

// Takes data as it is. Throws DataError that names the file if it cannot be loaded or has nothing to train.
ModelInfo script_model(const std::filesystem::path& file, ScoreLoss loss);

}  // namespace tutti::models
