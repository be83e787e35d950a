// Collectives on tensors, whatever their type and layout.
#pragma once

#include <torch/types.h>

#include "collectives/collectives.h"
#include "tutti/session.h"

namespace tutti::library {

// Moves tensors of an engine's ranks through memory that it moves best. One thread uses it, and every
// rank makes the same calls with the same shapes and types. What the engine allocated before stays;
// nobody allocates from it afterwards.
class Tensors {
 public:
  // The engine outlives it.
  explicit Tensors(collectives::Collectives& all) : all_(all), before_(all.mark()) {}

  // As Session promises. Each throws ConfigError for a tensor that cannot be moved, PeerLost and Timeout.
  void all_reduce(torch::Tensor& tensor, ReduceOp op, std::string_view label);
  torch::Tensor all_gather(const torch::Tensor& tensor, std::string_view label);
  void broadcast(torch::Tensor& tensor, int root, std::string_view label);
  void broadcast(std::span<std::byte> bytes, int root, std::string_view label);

 private:
  std::span<std::byte> room_for(std::size_t bytes);

  collectives::Collectives& all_;
  const collectives::Collectives::Mark before_;
  std::span<std::byte> room_;
};

}  // namespace tutti::library
