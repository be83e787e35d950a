// Waiting instead of computing, to measure exchanges apart from arithmetic.
//
// A rehearsal computes one step and notes when each gradient was final. A paced step then waits as long as it
// is told, hands out pseudo-random gradients at the same points of the step, and so overlaps with the
// exchange as a real one would.
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "base/deadline.h"
#include "grad/buckets.h"

namespace tutti::train {

// Sleeps instead of computing, and calls `on_tick` every now and then: who computes would get on meanwhile.
void sleep_until(Clock::time_point when, const std::function<void()>& on_tick);

class Pacer {
 public:
  // `step` is how long forward and backward together shall take. Buckets and tables outlive the pacer.
  Pacer(grad::Buckets& buckets, const grad::Tables& tables, Clock::duration step, std::uint64_t seed);

  // The rehearsal: between these two, note() and note_table() hear of each gradient.
  void begin_rehearsal();
  void note(grad::ParamId id);
  void note_table(std::size_t table);
  void end_rehearsal();
  bool rehearsing() const { return rehearsing_; }
  bool rehearsed() const { return !cues_.empty(); }

  // Waits, fills gradients, and announces each. A table's gradient is the one of the rehearsal. `on_tick` is
  // called every now and then meanwhile.
  void run(const std::function<void(grad::ParamId)>& announce,
           const std::function<void(std::size_t)>& announce_table, const std::function<void()>& on_tick);

 private:
  struct Cue {
    std::variant<grad::ParamId, std::size_t> what;  // a parameter or a table
    double at = 0;                                  // fraction of the step
  };
  void fill(grad::ParamId id);

  grad::Buckets& buckets_;
  const grad::Tables& tables_;
  Clock::duration step_;
  bool rehearsing_ = false;
  Clock::time_point began_;
  std::vector<std::pair<std::variant<grad::ParamId, std::size_t>, Clock::time_point>> noted_;
  std::vector<Cue> cues_;
  std::vector<torch::Tensor> rows_;  // by table: its gradient
  std::vector<float> noise_;
  std::size_t next_noise_ = 0;
};

}  // namespace tutti::train
