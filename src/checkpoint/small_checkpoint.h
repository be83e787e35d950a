// A checkpoint of a few tensors, for tests.
#pragma once

#include <array>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tutti::checkpoint {

struct SmallCheckpoint {
  std::array<float, 6> weight{1, 2, 3, -4, 0.5F, -0.0F};
  std::array<float, 2> bias{7, 8};
  std::array<float, 8> momentum{};

  std::vector<TensorView> model() const {
    return {{"fc.weight", DType::f32, {3, 2}, std::as_bytes(std::span(weight))},
            {"fc.bias", DType::f32, {2}, std::as_bytes(std::span(bias))}};
  }
  std::vector<TensorView> optimizer() const {
    return {{"fc.weight.momentum", DType::f32, {8}, std::as_bytes(std::span(momentum))}};
  }
  std::filesystem::path save_to(const std::filesystem::path& run, std::int64_t step) const {
    return save(run, step, model(), optimizer(), {{"model", "mlp"}, {"seed", 7}, {"lr", 0.1}});
  }
};

}  // namespace tutti::checkpoint
