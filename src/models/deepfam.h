// DeepFam (Seo et al. 2018), study C's network: protein families from sequences of amino acids. 5,218,310
// parameters at 86 classes.
//
//   1000 letters -> 21 x 1000, one where the letter is
//     -convolutions of widths 8, 12, ..., 36, 256 filters each-> batch norm, ReLU, max over the length
//     -> 2048, dropout 0.3 -> dense 2000, batch norm, ReLU -> dense to the classes
//
// Batch norm shifts but does not scale. Letters 0 to 20 are a place each; three letters stand for one of two
// amino acids and are a half in both their places; the padding is zero everywhere.
#pragma once

#include "models/model.h"

namespace tutti::models {

ModelInfo deepfam();

}  // namespace tutti::models
