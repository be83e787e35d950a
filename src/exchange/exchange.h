// How gradients become consistent parameters: one class an architecture, behind one small interface.
#pragma once

#include <chrono>

#include "base/deadline.h"
#include "grad/buckets.h"

namespace tutti::exchange {

// Of the step that finish_step() ended last.
struct ExchangeTimes {
  Clock::duration busy{};     // gradients were on their way, seen or hidden
  Clock::duration exposed{};  // of that, the worker stood still
};

// Owned by the trainer; one thread calls it, but for on_gradient, which comes from backward's thread while
// the trainer waits in backward.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // This gradient is final for this step. Never blocks on a peer.
  virtual void on_gradient(grad::ParamId id) = 0;

  // On return parameters are as this architecture promises, and gradients are free for the next step.
  // Gradients that were not announced count as they are (zero, if this worker had no samples). Throws
  // PeerLost, Timeout.
  virtual void finish_step() = 0;

  virtual ExchangeTimes times() const = 0;
};

}  // namespace tutti::exchange
