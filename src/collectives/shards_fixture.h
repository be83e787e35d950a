// Gradients of shards whose sum shows the order of its additions, and the sum as it is defined.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/shard_tree.h"

namespace tutti::collectives {

// Of so many different sizes that every other order shows in the bits of some element.
inline float shard_gradient(int shard, std::size_t i) {
  const auto mixed =
      (static_cast<std::uint32_t>(i) * 31U + static_cast<std::uint32_t>(shard) + 1U) * 2654435761U;
  constexpr std::array kSizes = {1e-3F, 1.0F, -1e3F, -1e-1F, 1e2F, 1e-2F, -1.0F, 1e1F};
  return static_cast<float>(mixed >> 8U) * 1e-7F * kSizes[mixed % kSizes.size()];
}

// The definition, node by node.
inline std::vector<float> shard_sum(const ShardTree& tree, ShardNode node, std::size_t count) {
  std::vector<float> sum(count);
  if (node.size == 1) {
    for (std::size_t i = 0; i < count; ++i) sum[i] = shard_gradient(node.first, i);
    return sum;
  }
  const int half = node.size / 2;
  sum = shard_sum(tree, {node.first, half}, count);
  if (node.first + half >= tree.shards()) return sum;
  const auto right = shard_sum(tree, {node.first + half, half}, count);
  for (std::size_t i = 0; i < count; ++i) sum[i] += right[i];
  return sum;
}

}  // namespace tutti::collectives
