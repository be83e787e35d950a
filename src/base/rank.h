// A process's place in the job, 0 to world - 1. A type of its own, so that it is never mistaken for a count.
#pragma once

namespace tutti {

enum class Rank : int {};

constexpr int to_int(Rank r) {
  return static_cast<int>(r);
}

}  // namespace tutti
