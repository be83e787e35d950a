// Gradients of shards whose sum shows the order of its additions, and the sum as it is defined.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/shard_tree.h"

namespace tutti::collectives {

// Of so many different sizes that every other order shows in the bits of some element.
template <typename T = float>
T shard_gradient(int shard, std::size_t i) {
  const auto mixed =
      (static_cast<std::uint32_t>(i) * 31U + static_cast<std::uint32_t>(shard) + 1U) * 2654435761U;
  constexpr std::array<T, 8> kSizes = {T(1e-3), T(1), T(-1e3), T(-1e-1), T(1e2), T(1e-2), T(-1), T(1e1)};
  return static_cast<T>(mixed >> 8U) * T(1e-7) * kSizes[mixed % kSizes.size()];
}

// The definition, node by node.
template <typename T = float>
std::vector<T> shard_sum(const ShardTree& tree, ShardNode node, std::size_t count) {
  std::vector<T> sum(count);
  if (node.size == 1) {
    for (std::size_t i = 0; i < count; ++i) sum[i] = shard_gradient<T>(node.first, i);
    return sum;
  }
  const int half = node.size / 2;
  sum = shard_sum<T>(tree, {node.first, half}, count);
  if (node.first + half >= tree.shards()) return sum;
  const auto right = shard_sum<T>(tree, {node.first + half, half}, count);
  for (std::size_t i = 0; i < count; ++i) sum[i] += right[i];
  return sum;
}

}  // namespace tutti::collectives
