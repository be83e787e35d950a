// How gradients become consistent parameters: one class a strategy, behind one small interface.
//
// A strategy at work is an Exchange: five calls. What only some have beside them are interfaces of their own,
// which such a class implements, too; exchange/running_exchange.h finds out which, and gives the plain answer
// for those that a class leaves out.
#pragma once

#include <optional>

#include "base/deadline.h"
#include "grad/buckets.h"
#include "observe/summary.h"

namespace tutti::exchange {

class TableRows;

// What follows when an exchange is finished: the end, or another exchange with the same servers.
enum class Afterwards { nothing, another_session };

// Owned by the trainer; one thread calls it, but for on_gradient, which comes from backward's thread while
// the trainer waits in backward. Calls that wait for peers throw PeerLost and Timeout; those that take
// gradients throw NonFinite where one cannot be used (exchange/finite_guard.h).
class Exchange {
 public:
  virtual ~Exchange() = default;

  // All workers call it. Everyone begins with rank 0's parameters and, if `with_state`, its optimizer's
  // state; `step` steps lie behind the model. Where replicas differ between synchronisations and
  // `with_state`, every worker has restored its own, and keeps it; of own_state() everyone gets rank 0's.
  virtual void start(std::int64_t step, bool with_state) = 0;

  // This gradient is final for this step. Never blocks on a peer.
  virtual void on_gradient(grad::ParamId id) = 0;

  // Ends a phase that others of the same step follow: its parameters are on return as finish_step() would
  // leave them. Who computes nothing in a step may leave it out.
  virtual void finish_phase(std::size_t phase) = 0;

  // On return parameters are as this strategy promises, and gradients are free for the next step.
  // Gradients that were not announced count as they are (zero, if this worker had no samples).
  virtual void finish_step() = 0;

  // All workers call it after their last step: on return everyone has the same parameters, and rank 0's
  // updater the optimizer's state.
  virtual void finish(Afterwards afterwards) = 0;
};

// Counts steps itself. Where workers do not keep step, a step of the model is one gradient of each worker,
// and the run ends by this count; without it a step is a finish_step().
class CountsSteps {
 public:
  virtual ~CountsSteps() = default;
  virtual std::int64_t steps_done() const = 0;
};

// Works beside backward, and can pause: on return from drain() nothing of the step is on its way between
// workers, so that they may speak of something else. What is announced later leaves again. Workers whose
// gradients come in the same order do it at the same place.
class Drains {
 public:
  virtual ~Drains() = default;
  virtual void drain() = 0;
};

// Exchanges embedding tables by rows.
class HasRows {
 public:
  virtual ~HasRows() = default;
  virtual TableRows* rows() = 0;  // none where every gradient is dense
};

// Numbers of a strategy's own that a checkpoint keeps beside the optimizer's, by bucket.
struct NamedState {
  std::string_view name;
  std::vector<std::span<float>> buckets;
};

// Has something that a checkpoint needs.
class HasState {
 public:
  virtual ~HasState() = default;
  // Rank 0 calls it, between steps: the updater there holds the optimizer's state on return.
  virtual void fetch_state() {}
  // Between steps; the same on every worker.
  virtual std::vector<NamedState> own_state() { return {}; }
};

// Of the step that finish_step() ended last.
struct ExchangeTimes {
  Clock::duration busy{};     // gradients were on their way, seen or hidden
  Clock::duration exposed{};  // of that, the worker stood still
};

// Measures itself.
class HasFigures {
 public:
  virtual ~HasFigures() = default;
  virtual ExchangeTimes times() const = 0;
  // Gradients and parameters that this worker has sent so far.
  virtual std::uint64_t bytes_sent() const = 0;
  // What the servers have counted, after finish(); none where there are no servers.
  virtual std::optional<observe::ServersFigures> by_servers() const { return std::nullopt; }
};

}  // namespace tutti::exchange
