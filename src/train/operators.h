// Operators as progress: the smallest steps in which a network gets on.
//
// A forward pass of a large network takes longer than a rank may stand still, and so may a batch of an
// evaluation. Each operator that libtorch computes on the thread, forward or backward, then shows on the
// status board that the rank gets on. That costs about 0.1 us an operator, which networks of many small ones
// would notice; where a whole pass is over in no time, the pass is progress enough.
#pragma once

#include <cstdint>
#include <optional>

#include "base/deadline.h"
#include "net/status_board.h"

namespace tutti::train {

// From its making to its end, on the thread that makes and ends it; one at a time a thread. The board
// outlives it. A rank may stand still for `timeout`.
class OperatorProgress {
 public:
  OperatorProgress(const net::StatusBoard& board, Rank self, Clock::duration timeout);
  ~OperatorProgress();
  OperatorProgress(const OperatorProgress&) = delete;
  OperatorProgress& operator=(const OperatorProgress&) = delete;

  // Nobody knows how long what follows takes: operators are noted. So it begins.
  void listen();

  // A pass took so long, and another of its kind follows: its operators are noted if they may be needed.
  static constexpr int kOftenEnough = 20;  // passes in a time-out
  void after_pass(Clock::duration took);

 private:
  void stop_listening();

  const Clock::duration timeout_;
  std::optional<std::uint64_t> callback_;
};

}  // namespace tutti::train
