#include "state/arithmetic.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
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

}  // namespace

nlohmann::json describe_arithmetic(std::int64_t threads, const std::string& device,
                                   const std::string& precision) {
  return {{"processor", observe::describe_machine().cpu},
          {"instructions", instructions()},
          {"libtorch", TORCH_VERSION},
          {"threads", threads},
          {"device", device},
          {"precision", precision}};
}

std::string describe_libtorch() {
  return fmt::format("{}, oneDNN {}, CUDA {}", TORCH_VERSION, at::globalContext().hasMKLDNN() ? "yes" : "no",
                     torch::cuda::is_available() ? "yes (not used yet)" : "no");
}

}  // namespace tutti::state
