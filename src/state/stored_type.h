// What an element of a tensor is kept and sent as.
#pragma once

#include <torch/types.h>

#include <optional>

#include "base/dtype.h"

namespace tutti::state {

// Truth values and small integers become int32. Nothing for what is no real number: complex ones, quantised
// ones.
std::optional<DType> stored_type(torch::ScalarType type);

torch::ScalarType torch_type(DType type);

}  // namespace tutti::state
