// One pass: a direct all-reduce in place, in one pass over memory. When all have come, each rank combines its
// part of all buffers and writes the result into all of them; then all wait for all. Averages are divided in
// the same pass.
#include "collectives/executor.h"

namespace tutti::collectives {
namespace {

std::uint64_t run_one_pass(const WorkInPlace& work, std::uint64_t clock) {
  const Chunk part = equal_chunk(work.buffer.count, work.world, to_int(work.self));
  clock = begin_together(work, clock);
  if (part.count > 0) {
    const std::size_t offset = work.announcement.place + part.first * size_of(work.buffer.type);
    std::vector<void*> buffers;
    for (int r = 0; r < work.world; ++r) buffers.push_back(work.memory.arena(Rank{r}).data() + offset);
    combine_across(work.buffer.type, work.op, buffers, part.count,
                   work.op == ReduceOp::average ? work.world : 1);
  }
  work.memory.advance(++clock);
  for (int r = 0; r < work.world; ++r) {
    if (Rank{r} != work.self) work.memory.await(Rank{r}, clock, work.doing);
  }
  return clock;
}

}  // namespace

AlgorithmInfo one_pass() {
  return {.name = "one-pass",
          .summary = "everyone combines its part of all buffers and writes it to all; in shared memory",
          .schedule = [](const Task& task) { return info_of(Algorithm::direct).schedule(task); },
          .runs = AlgorithmInfo::Runs::in_place,
          .all_reduce_only = true,
          .in_place = run_one_pass};
}

}  // namespace tutti::collectives
