// The recurrent network of study D: an LSTM of 64 units reads an image row by row, 28 rows of 28 pixels; a
// dense layer makes the classes of its last output.
#pragma once

#include "models/model.h"

namespace tutti::models {

ModelInfo rnn_mnist();

}  // namespace tutti::models
