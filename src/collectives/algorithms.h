// Inside this room: one function per algorithm, and what they build rounds with.
#pragma once

#include <cstddef>

#include "collectives/schedule.h"

namespace tutti::collectives {

// What make_schedule was asked for. Never a barrier, and world > 1: make_schedule settles these for all
// algorithms.
struct Task {
  Operation operation{};
  int rank = 0;
  int world = 1;
  std::size_t count = 0;
  int root = 0;
};

Schedule ring(const Task& task);
Schedule direct(const Task& task);
Schedule halving_doubling(const Task& task);
Schedule tree(const Task& task);

enum class Arrival { replace, combine };

// Add to a round, unless the chunk is empty (rule 4).
void send(Round& round, int peer, Chunk chunk);
void receive(Round& round, int peer, Chunk chunk, Arrival arrival);

// Parts [first, last) of `count` elements in `parts` equal parts, as one chunk.
Chunk part_range(std::size_t count, int parts, int first, int last);

// a mod n, from 0 to n - 1 also where a is negative.
constexpr int wrap(int a, int n) {
  return ((a % n) + n) % n;
}

}  // namespace tutti::collectives
