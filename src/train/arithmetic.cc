#include "train/arithmetic.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include "observe/machine.h"

namespace tutti::train {
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

nlohmann::json describe_arithmetic(const config::TrainConfig& config) {
  return {{"processor", observe::describe_machine().cpu},
          {"instructions", instructions()},
          {"libtorch", TORCH_VERSION},
          {"threads", config.threads},
          {"device", config.device},
          {"precision", config.precision}};
}

std::string describe_libtorch() {
  return fmt::format("{}, oneDNN {}, CUDA {}", TORCH_VERSION, at::globalContext().hasMKLDNN() ? "yes" : "no",
                     torch::cuda::is_available() ? "yes (not used yet)" : "no");
}

}  // namespace tutti::train
