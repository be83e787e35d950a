// A step's way through the buckets, phase by phase.
#pragma once

#include "grad/buckets.h"

namespace tutti::exchange {

// One thread. The buckets outlive it.
class BucketWalk {
 public:
  explicit BucketWalk(const grad::Buckets& buckets) : buckets_(buckets) {}

  // The first bucket behind this phase.
  std::size_t end_of(std::size_t phase) const {
    std::size_t end = next_;
    while (end < buckets_.size() && buckets_.layout(end).phase <= phase) ++end;
    return end;
  }

  // Visits those up to the end of this phase that this step has not seen.
  template <typename Visit>
  void finish_phase(std::size_t phase, const Visit& visit) {
    for (const std::size_t end = end_of(phase); next_ < end; ++next_) visit(next_);
  }

  // Visits the rest; another step begins.
  template <typename Visit>
  void finish_step(const Visit& visit) {
    for (; next_ < buckets_.size(); ++next_) visit(next_);
    next_ = 0;
  }

 private:
  const grad::Buckets& buckets_;
  std::size_t next_ = 0;
};

}  // namespace tutti::exchange
