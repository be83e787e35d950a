// Recursive doubling: partners send each other all they have, and each combines what comes with its own; then
// the same with partners twice as far away, until all have all.
//
//       N = 4     round 1: 0 <-> 1, 2 <-> 3        round 2: 0 <-> 2, 1 <-> 3
//
// Between two ranks that is one round, and as many bytes as any other way; among more it is the fewest
// rounds, for buffers that are tiny. In worlds that are no power of two the first ranks pair up, and of each
// pair the even one plays for both: it is handed what the other has, and hands back the result. N = 6: 1
// hands over to 0 and 3 to 2; 0, 2, 4 and 5 play, from seats 0 to 3.
//
// Partners combine in different orders, so it is for what does not depend on the order of two.
#include <bit>

#include "collectives/algorithms.h"

namespace tutti::collectives {
namespace {

Schedule recursive_doubling_schedule(const Task& t) {
  const Chunk all{0, t.count};
  const int seats = static_cast<int>(std::bit_floor(static_cast<unsigned>(t.world)));
  const int extra = t.world - seats;
  const bool paired = t.rank < 2 * extra;
  const bool plays = !paired || t.rank % 2 == 0;
  const int seat = paired ? t.rank / 2 : t.rank - extra;
  const auto rank_at = [&](int place) { return place < extra ? 2 * place : place + extra; };

  Schedule schedule;
  if (extra > 0) {
    Round& round = schedule.rounds.emplace_back();
    if (!plays) send(round, t.rank - 1, all);
    if (plays && paired) receive(round, t.rank + 1, all, Arrival::combine);
  }
  for (int distance = 1; distance < seats; distance *= 2) {
    Round& round = schedule.rounds.emplace_back();
    if (!plays) continue;
    const int peer = rank_at(seat ^ distance);
    send(round, peer, all);
    receive(round, peer, all, Arrival::combine);
  }
  if (extra > 0) {
    Round& round = schedule.rounds.emplace_back();
    if (!plays) receive(round, t.rank - 1, all, Arrival::replace);
    if (plays && paired) send(round, t.rank + 1, all);
  }
  return schedule;
}

// The least of -0 and 0 depends on their order; a sum does not, nor does a barrier's number.
bool order_does_not_matter(const Call& call) {
  return call.op == ReduceOp::sum || call.op == ReduceOp::average || call.operation == Operation::barrier;
}

}  // namespace

AlgorithmInfo recursive_doubling() {
  return {.name = "recursive-doubling",
          .summary = "all there is, to partners ever further away; for sums, by messages",
          .schedule = recursive_doubling_schedule,
          .runs = AlgorithmInfo::Runs::by_messages,
          .all_reduce_only = true,
          .can_serve = order_does_not_matter};
}

}  // namespace tutti::collectives
