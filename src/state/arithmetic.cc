#include "state/arithmetic.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include "observe/machine.h"

namespace tutti::state {
namespace {

// libtorch tells it in its description of itself alone.
std::string instructions() {
  static constexpr std::string_view kLine = "CPU capability usage: ";
  const std::string description = at::show_config();
  const auto line = description.find(kLine);
  if (line == std::string::npos) return "";
  const auto begin = line + kLine.size();
  return description.substr(begin, description.find('\n', begin) - begin);
}

// libtorch may have been built with another BLAS, so OpenBLAS is not linked but looked for in this process.
// Asked once: it writes its answer into memory that all threads share.
std::string openblas() {
  static const std::string answer = [] {
    const auto ask = reinterpret_cast<char* (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_config"));
    return std::string(ask != nullptr ? ask() : "");
  }();
  return answer;
}

}  // namespace

nlohmann::json describe_arithmetic(std::int64_t threads, const std::vector<std::string>& kernels,
                                   const std::string& device, const std::string& precision) {
  return {{"processor", observe::describe_machine().cpu},
          {"instructions", instructions()},
          {"libtorch", TORCH_VERSION},
          {"openblas", openblas()},
          {"kernels", kernels},
          {"threads", threads},
          {"device", device},
          {"precision", precision}};
}

std::string describe_libtorch() {
  return fmt::format("{}, oneDNN {}, CUDA {}", TORCH_VERSION, at::globalContext().hasMKLDNN() ? "yes" : "no",
                     torch::cuda::is_available() ? "yes (not used yet)" : "no");
}

}  // namespace tutti::state
