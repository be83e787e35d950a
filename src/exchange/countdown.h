// Which buckets are full: counts down, as backward goes, what each still lacks.
#pragma once

#include <vector>

#include "grad/buckets.h"

namespace tutti::exchange {

// Used by backward's thread while it runs, by the trainer's between.
class Countdown {
 public:
  explicit Countdown(const grad::Buckets& buckets) : buckets_(buckets), lacking_(buckets.size()) { reset(); }

  // True if this was the last gradient that its bucket lacked.
  bool arrived(grad::ParamId id) { return --lacking_[buckets_.bucket_of(id)] == 0; }
  bool full(std::size_t bucket) const { return lacking_[bucket] == 0; }
  void reset() {
    for (std::size_t b = 0; b < lacking_.size(); ++b) lacking_[b] = buckets_.layout(b).slices.size();
  }

 private:
  const grad::Buckets& buckets_;
  std::vector<std::size_t> lacking_;
};

}  // namespace tutti::exchange
