// Operators as progress: the smallest steps in which a network gets on.
//
// A forward pass of a large network takes longer than a rank may stand still, and so may a batch of an
// evaluation. Each operator that libtorch computes on the thread, forward or backward, shows on the status
// board that the rank gets on.
#pragma once

#include <cstdint>

#include "net/status_board.h"

namespace tutti::train {

// From its making to its end, on the thread that makes and ends it; one at a time a thread. The board
// outlives it.
class OperatorProgress {
 public:
  OperatorProgress(const net::StatusBoard& board, Rank self);
  ~OperatorProgress();
  OperatorProgress(const OperatorProgress&) = delete;
  OperatorProgress& operator=(const OperatorProgress&) = delete;

 private:
  std::uint64_t callback_;
};

}  // namespace tutti::train
