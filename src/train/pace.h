// Waiting instead of computing, to measure exchanges apart from arithmetic.
//
// A rehearsal computes one step and notes when each gradient was final. A paced step then waits as long as it
// is told, hands out pseudo-random gradients at the same points of the step, and so overlaps with the
// exchange as a real one would.
#pragma once

#include <functional>
#include <vector>

#include "base/deadline.h"
#include "grad/buckets.h"

namespace tutti::train {

class Pacer {
 public:
  // `step` is how long forward and backward together shall take. The buckets outlive the pacer.
  Pacer(grad::Buckets& buckets, Clock::duration step, std::uint64_t seed);

  // The rehearsal: between these two, note() hears of each gradient.
  void begin_rehearsal();
  void note(grad::ParamId id);
  void end_rehearsal();
  bool rehearsing() const { return rehearsing_; }

  // Waits, fills gradients, and announces each.
  void run(const std::function<void(grad::ParamId)>& announce);

 private:
  struct Cue {
    grad::ParamId param{};
    double at = 0;  // fraction of the step
  };
  void fill(grad::ParamId id);

  grad::Buckets& buckets_;
  Clock::duration step_;
  bool rehearsing_ = false;
  Clock::time_point began_;
  std::vector<std::pair<grad::ParamId, Clock::time_point>> noted_;
  std::vector<Cue> cues_;
  std::vector<float> noise_;
  std::size_t next_noise_ = 0;
};

}  // namespace tutti::train
