// From the data's bytes to what a network takes.
#pragma once

#include <span>
#include <vector>

#include "models/model.h"

namespace tutti::train {

// A batch's bytes as tensors over them. Images are `channels_last` or row-major.
models::Batch as_tensors(std::span<const std::span<const std::byte>> fields,
                         const std::vector<Field>& described, std::size_t count, bool channels_last);

}  // namespace tutti::train
