// What is in a checkpoint, for people.
#pragma once

#include <span>
#include <string>

#include "checkpoint/checkpoint.h"

namespace tutti::checkpoint {

// Each tensor's name, type, shape, elements, bytes, least, greatest and mean element, L2 norm; then totals.
std::string show(std::span<const TensorView> tensors);

// The path, the step, what the trainer noted and the digest of the parameters; then the model's and the
// optimizer's tables.
std::string show(const Checkpoint& checkpoint);

}  // namespace tutti::checkpoint
