#include "collectives/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "collectives/algorithms.h"

namespace tutti::collectives {

Chunk equal_chunk(std::size_t count, int chunks, int index) {
  TUTTI_CHECK(0 <= index && index < chunks, "chunk {} of {}", index, chunks);
  const auto p = static_cast<std::size_t>(index);
  const auto n = static_cast<std::size_t>(chunks);
  const std::size_t longer = count % n;
  return {p * (count / n) + std::min(p, longer), count / n + (p < longer ? 1 : 0)};
}

Chunk chunk_range(std::size_t count, int chunks, int first, int last) {
  if (first >= last) return {};
  const Chunk head = equal_chunk(count, chunks, first);
  const Chunk tail = equal_chunk(count, chunks, last - 1);
  return {head.first, tail.first + tail.count - head.first};
}

void send(Round& round, int peer, Chunk chunk) {
  if (chunk.count > 0) round.sends.push_back({Rank{peer}, chunk});
}

void receive(Round& round, int peer, Chunk chunk, Arrival arrival) {
  if (chunk.count > 0) round.receives.push_back({Rank{peer}, chunk, arrival == Arrival::combine});
}

Schedule make_schedule(Operation operation, Algorithm algorithm, Rank rank, int world, std::size_t count,
                       Rank root) {
  Task task{operation, to_int(rank), world, count, to_int(root)};
  TUTTI_CHECK(0 <= task.rank && task.rank < world, "rank {} of {}", task.rank, world);
  TUTTI_CHECK(0 <= task.root && task.root < world, "root {} of {}", task.root, world);
  if (world == 1) return {};
  if (operation == Operation::barrier) {
    task.operation = Operation::all_reduce;
    task.count = 1;
  }
  TUTTI_CHECK(has(algorithm, operation), "{} by {}", name_of(operation), name_of(algorithm));
  TUTTI_CHECK(info_of(algorithm).schedule != nullptr, "{} has no schedule of its own", name_of(algorithm));
  return info_of(algorithm).schedule(task);
}

std::size_t elements_sent(const Schedule& schedule) {
  std::size_t sum = 0;
  for (const Round& round : schedule.rounds) {
    for (const Send& s : round.sends) sum += s.chunk.count;
  }
  return sum;
}

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all-reduce";
    case Operation::reduce_scatter:
      return "reduce-scatter";
    case Operation::all_gather:
      return "all-gather";
    case Operation::broadcast:
      return "broadcast";
    case Operation::reduce:
      return "reduce";
    case Operation::barrier:
      return "barrier";
  }
  return "?";
}

}  // namespace tutti::collectives
