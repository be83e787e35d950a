// A point on the steady clock by which a blocking call gives up.
#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

using Clock = std::chrono::steady_clock;

inline std::chrono::milliseconds elapsed_ms(Clock::time_point since) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
}

class Deadline {
 public:
  static Deadline in(Clock::duration d) { return {Clock::now(), d}; }

  bool passed() const { return Clock::now() >= at(); }
  Clock::time_point at() const { return start_ + length_; }
  Clock::duration left() const { return std::max(Clock::duration::zero(), at() - Clock::now()); }
  std::chrono::milliseconds waited() const { return elapsed_ms(start_); }

 private:
  Deadline(Clock::time_point start, Clock::duration length) : start_(start), length_(length) {}
  Clock::time_point start_;
  Clock::duration length_;
};

}  // namespace tutti
