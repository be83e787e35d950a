// What a run is asked for while it trains (a signal to its launcher), and after which step its workers do it.
//
// The launcher's word reaches ranks at any moment, in the middle of different steps; yet where workers keep
// step all of them must act after the same one. So rank 0 decides (net/status_board.h): when it sees the word
// after step k, it names a step that nobody can end before rank 0 has taken part in it, the next or, where
// workers synchronise every H steps, the next synchronisation. Everybody else finds the decision there when
// that step has ended.
#pragma once

#include <cstdint>

#include "net/status_board.h"

namespace tutti::train {

// How workers stand to each other between steps.
enum class StepMode {
  together,     // a step is everybody's
  in_periods,   // each on its own between synchronisations
  asynchronous  // each on its own
};

// One thread of each worker calls it. The board outlives it.
class RunRequests {
 public:
  // `period` is 1, or the steps between synchronisations.
  RunRequests(const net::StatusBoard& board, Rank self, int workers, StepMode step_mode,
              std::int64_t period = 1)
      : board_(board), self_(self), workers_(workers), mode_(step_mode), period_(period) {}

  struct Asked {
    bool stop = false;  // save and end
    bool save = false;  // save and go on
  };
  // After step `done` of this worker, before the next begins. Blocks only where rank 0 decides and the job
  // has several hosts, until all of them know; throws Timeout if that takes too long.
  Asked after_step(std::int64_t done);

 private:
  bool first() const { return net::first_left(board_, workers_) == self_; }
  void decide(net::Request request, std::int64_t done);

  const net::StatusBoard& board_;
  const Rank self_;
  const int workers_;
  const StepMode mode_;
  const std::int64_t period_;
  std::uint32_t saves_ = 0;  // that were asked for and decided upon
};

}  // namespace tutti::train
