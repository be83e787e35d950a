// The order in which a step's buckets leave.
//
//   gradients final:  bucket 0 . . . . . . . .|full
//                     bucket 1 . . . .|full
//   buckets leave:                            0 1        never 1 before 0
//
// Backward may fill buckets in another order on another rank. So a bucket leaves as soon as it is full and
// all before it have left: every rank sends them in the same order, and no two wait for each other.
#pragma once

#include <cstddef>
#include <vector>

#include "grad/buckets.h"

namespace tutti::exchange {

// Used by backward's thread while it runs, by the trainer's between. The buckets outlive it.
class Departures {
 public:
  explicit Departures(const grad::Buckets& buckets) : buckets_(buckets), lacking_(buckets.size()) { reset(); }

  // This gradient is final for this step. True if it was the last that its bucket lacked.
  bool arrived(grad::ParamId id) { return --lacking_[buckets_.bucket_of(id)] == 0; }

  // These call leave(bucket) for the next buckets, in order. One for which that throws has not left.
  // Those that are full.
  template <typename Leave>
  void leave_full(const Leave& leave) {
    for (; next_ < buckets_.size() && lacking_[next_] == 0; ++next_) leave(next_);
  }
  // Those up to the end of a phase, full or not: gradients that were not announced count as they are.
  template <typename Leave>
  void leave_phase(std::size_t phase, const Leave& leave) {
    for (; next_ < buckets_.size() && buckets_.layout(next_).phase <= phase; ++next_) leave(next_);
  }
  // The rest of the step, full or not.
  template <typename Leave>
  void leave_rest(const Leave& leave) {
    for (; next_ < buckets_.size(); ++next_) leave(next_);
  }

  // The first that has not left; the number of buckets where all have.
  std::size_t next() const { return next_; }

  // Another step begins.
  void reset() {
    next_ = 0;
    for (std::size_t b = 0; b < lacking_.size(); ++b) lacking_[b] = buckets_.layout(b).slices.size();
  }

 private:
  const grad::Buckets& buckets_;
  std::vector<std::size_t> lacking_;  // by bucket: gradients that are not final yet
  std::size_t next_ = 0;
};

}  // namespace tutti::exchange
