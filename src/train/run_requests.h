// What a run is asked for while it trains (a signal to its launcher), and after which step its workers do it.
//
// The launcher's word reaches ranks at any moment, in the middle of different steps; yet where workers keep
// step all of them must act after the same one. So rank 0 decides (net/status_board.h): when it sees the word
// after step k, it names a step that nobody can end before rank 0 has taken part in it, the next or, where
// workers synchronise every H steps, the next synchronisation. Everybody else finds the decision there when
// that step has ended.
//
// Where hosts have boards that nobody mirrors (processes that others have started, launch/join.h), workers
// tell each other what was asked of any of them, in an all-reduce of three words about twice a second, and do
// it right then.
#pragma once

#include <cstdint>

#include "base/deadline.h"
#include "collectives/collectives.h"
#include "net/status_board.h"

namespace tutti::train {

// How workers stand to each other between steps.
enum class StepMode {
  together,     // a step is everybody's
  in_periods,   // each on its own between synchronisations
  asynchronous  // each on its own
};

// In how many steps workers tell each other again, when the last so many have taken so long.
std::int32_t steps_to_next_talk(std::int64_t steps, Clock::duration took);

// One thread of each worker calls it. Board and collectives outlive it.
class RunRequests {
 public:
  // `period` is 1, or the steps between synchronisations. `all` are the workers; they are needed where the
  // board shows one host of several, and must keep step there.
  RunRequests(const net::StatusBoard& board, Rank self, int workers, StepMode step_mode,
              std::int64_t period = 1, collectives::Collectives* all = nullptr)
      : board_(board), self_(self), workers_(workers), mode_(step_mode), period_(period), all_(all) {}

  struct Asked {
    bool stop = false;  // save and end
    bool save = false;  // save and go on
  };
  // After step `done` of this worker, before the next begins. Blocks only where the job has several hosts:
  // where rank 0 decides, until all of them know, and where workers tell each other. Throws Timeout if that
  // takes too long, and PeerLost.
  Asked after_step(std::int64_t done);

 private:
  bool first() const { return net::first_left(board_, workers_) == self_; }
  void decide(net::Request request, std::int64_t done);
  Asked tell_each_other(std::int64_t done);

  const net::StatusBoard& board_;
  const Rank self_;
  const int workers_;
  const StepMode mode_;
  const std::int64_t period_;
  collectives::Collectives* const all_;
  std::uint32_t saves_ = 0;  // that were asked for and decided upon
  struct Talk {
    std::int64_t after = 0;  // the next is after this step
    std::int64_t last = 0;
    Clock::time_point at = Clock::now();
  } talk_;
};

}  // namespace tutti::train
