// What the bits of a training depend on beside its settings: which kernels computed it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::state {

// A checkpoint keeps it, so that `ckpt diff` can name what is another in two of them (checkpoint/diff.h):
//
//   processor     its name
//   instructions  of the processor, those that libtorch uses
//   libtorch      its version
//   openblas      its version, how it was built and the processor whose kernels it uses; empty where libtorch
//                 has another BLAS, or one that nobody else can ask
//   kernels       variables of the environment that choose kernels (config::kernel_variables)
//
// and the rest as it is given here.
nlohmann::json describe_arithmetic(std::int64_t threads, const std::vector<std::string>& kernels,
                                   const std::string& device = "cpu", const std::string& precision = "fp32");

// One line for people: the libtorch that this program has.
std::string describe_libtorch();

}  // namespace tutti::state
