// A dense network for study E: star, galaxy or quasar, from the magnitudes in five bands.
//
//   5 -> 128 -> 128 -> 64 -> 3, ReLU after every layer but the last.
//
// The study calls its network custom and gives no sizes; these are ours.
#pragma once

#include "models/model.h"

namespace tutti::models {

ModelInfo sdss_dnn();

}  // namespace tutti::models
