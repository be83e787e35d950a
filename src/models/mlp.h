// A dense network for tables: as many inputs as the data has features, two hidden layers, a score for each
// class.
//
//   inputs -> hidden -> hidden -> classes, ReLU after every layer but the last.
#pragma once

#include "models/model.h"

namespace tutti::models {

ModelInfo mlp();

}  // namespace tutti::models
