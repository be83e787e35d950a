// Plays the schedules of all ranks against each other in one thread, on plain vectors. For tests and for
// planning.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/schedule.h"

namespace tutti::collectives {

// Every rank's schedule, in order of rank.
inline std::vector<Schedule> schedules_of_all(Operation operation, Algorithm algorithm, int world,
                                              std::size_t count, Rank root = Rank{0}) {
  std::vector<Schedule> all;
  for (int rank = 0; rank < world; ++rank) {
    all.push_back(make_schedule(operation, algorithm, Rank{rank}, world, count, root));
  }
  return all;
}

// buffers[r] is rank r's; `combine(a, b)` gives a op b. The schedules must keep the rules of schedule.h. A
// chunk is read as it was when the round began.
template <class T, class Combine>
void simulate(std::span<const Schedule> all, std::span<std::vector<T>> buffers, Combine combine) {
  for (std::size_t k = 0; !all.empty() && k < all[0].rounds.size(); ++k) {
    const std::vector<std::vector<T>> before(buffers.begin(), buffers.end());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      for (const Receive& r : all[rank].rounds[k].receives) {
        const auto& from = before[static_cast<std::size_t>(to_int(r.peer))];
        auto& into = buffers[rank];
        for (std::size_t i = r.chunk.first; i < r.chunk.first + r.chunk.count; ++i) {
          into[i] = r.combine ? combine(into[i], from[i]) : from[i];
        }
      }
    }
  }
}

}  // namespace tutti::collectives
