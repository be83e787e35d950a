#include "exchange/shard_gradients.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace tutti::exchange {
namespace {

// Different enough that another order of additions shows in the bits.
float gradient(int shard, std::size_t element) {
  return static_cast<float>(shard + 1) * 0.1F +
         static_cast<float>(element % 97) * 1.7e-3F * static_cast<float>(shard);
}

// By the definition: a node is the sum of its children, and one with nothing on its right its left child.
float sum_of(const ShardTree& tree, ShardNode node, std::size_t element) {
  if (node.size == 1) return gradient(node.first, element);
  const float left = sum_of(tree, {node.first, node.size / 2}, element);
  const int middle = node.first + node.size / 2;
  return middle >= tree.shards() ? left : left + sum_of(tree, {middle, node.size / 2}, element);
}

struct Memory {
  std::vector<std::vector<float>> blocks;
  std::span<std::byte> operator()(std::size_t bytes) {
    blocks.emplace_back(bytes / sizeof(float));
    return std::as_writable_bytes(std::span(blocks.back()));
  }
};

TEST(ShardGradients, LeavesTheNodesOfItsRunInTheirPlaces) {
  for (const int shards : {1, 2, 3, 8, 13}) {
    for (int world = 1; world <= std::min(shards, 6); ++world) {
      for (int rank = 0; rank < world; ++rank) {
        const torch::nn::Linear net(50, 60);
        Memory memory;
        memory.blocks.reserve(16);
        const ShardTree tree(shards);
        grad::Buckets buckets(grad::trained_parameters(*net), 4096, std::ref(memory), tree.places_of(world));
        ShardGradients gradients(buckets, shards, Rank{rank}, world);
        for (int step = 0; step < 2; ++step) {  // what a step leaves behind is not seen in the next
          for (int s = gradients.run().first; s < gradients.run().last; ++s) {
            for (std::size_t b = 0; b < buckets.size(); ++b) {
              const auto place = buckets.gradients(b);
              for (std::size_t i = 0; i < place.size(); ++i) place[i] += gradient(s, i);
            }
            if (s + 1 < gradients.run().last) gradients.set_aside(0);
          }
          for (std::size_t b = 0; b < buckets.size(); ++b) {
            gradients.complete(b);
            for (const auto& [node, place] : gradients.held()) {
              const auto sums = buckets.place(b, place);
              for (std::size_t i = 0; i < sums.size(); ++i) {
                ASSERT_EQ(sums[i], sum_of(tree, node, i))
                    << shards << " shards, rank " << rank << " of " << world << ", node " << node.first;
              }
            }
          }
          buckets.zero_gradients();
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti::exchange
