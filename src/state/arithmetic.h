// What the bits of a training depend on beside its settings: which kernels computed it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::state {

// A checkpoint keeps it, so that `ckpt diff` can name what is another in two of them (checkpoint/diff.h): the
// processor, the instructions that libtorch uses on it, libtorch's version, and what is given here.
nlohmann::json describe_arithmetic(std::int64_t threads, const std::string& device = "cpu",
                                   const std::string& precision = "fp32");

// One line for people: the libtorch that this program has.
std::string describe_libtorch();

}  // namespace tutti::state
