// What the bits of a run depend on beside its settings: which kernels computed it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/train_config.h"

namespace tutti::train {

// A checkpoint keeps it, so that `ckpt diff` can name what is another in two of them (checkpoint/diff.h): the
// processor, the instructions that libtorch uses on it, libtorch's version, threads, device, precision.
nlohmann::json describe_arithmetic(const config::TrainConfig& config);

// One line for people: the libtorch that this program has.
std::string describe_libtorch();

}  // namespace tutti::train
