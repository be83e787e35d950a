// What a collective does, as data.
//
// A schedule is what one rank does in one collective: a list of rounds. In a round the rank sends some chunks
// of its buffer to peers and receives others from peers, all at once; a received chunk either replaces or is
// combined with what the buffer holds there. The executor runs a schedule, a report draws it, and a test
// plays all ranks' schedules against each other with no sockets.
//
// Every algorithm keeps these rules, so that one executor fits all, on sockets or in shared memory:
//   1. All ranks of a collective have the same number of rounds (some may be empty).
//   2. A send from a to b in round k has exactly one matching receive at b from a in round k, of the same
//      chunk; there is at most one send from a to b in a round.
//   3. In one round, no chunk that a rank receives overlaps a chunk that it sends, unless it is combined and
//      the algorithm runs by messages only: the executor then receives it into scratch memory and combines it
//      after the send. Received chunks overlap each other only if all of them are combined; that happens in
//      the order listed.
//   4. Chunks without elements are neither sent nor received.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/rank.h"

namespace tutti::collectives {

enum class Operation { all_reduce, reduce_scatter, all_gather, broadcast, reduce, barrier };
enum class Algorithm {
#define TUTTI_ALGORITHM(name) name,
#include "collectives/algorithms.inc"
#undef TUTTI_ALGORITHM
};

// Elements [first, first + count) of the buffer.
struct Chunk {
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(const Chunk&) const = default;
};

inline bool overlap(Chunk a, Chunk b) {
  return a.first < b.first + b.count && b.first < a.first + a.count;
}

struct Send {
  Rank peer{};
  Chunk chunk;
  bool operator==(const Send&) const = default;
};

struct Receive {
  Rank peer{};
  Chunk chunk;
  bool combine = false;  // reduce into what is there, instead of replacing it
  bool operator==(const Receive&) const = default;
};

struct Round {
  std::vector<Send> sends;
  std::vector<Receive> receives;
};

struct Schedule {
  std::vector<Round> rounds;
};

// Chunk `index` of `count` elements cut into `chunks` nearly equal ones: the first count % chunks have one
// more. reduce_scatter leaves, and all_gather expects, rank r's chunk in place at equal_chunk(count, world,
// r).
Chunk equal_chunk(std::size_t count, int chunks, int index);

// The schedule of `rank` for an operation over `count` elements, in place on one buffer. `root` matters to
// broadcast and reduce only. Any world from 1 up, any count from 0 up. A pure function.
//
// When all ranks are through, all_reduce, all_gather and broadcast leave the same bits everywhere. reduce
// leaves the result at the root and reduce_scatter leaves rank r's chunk at r; the rest of every buffer is
// then scratch. A barrier ignores `count`: it is an all_reduce of one element of no meaning, because empty
// chunks are not sent. The algorithm must have the operation, and a schedule (algorithms.h).
Schedule make_schedule(Operation operation, Algorithm algorithm, Rank rank, int world, std::size_t count,
                       Rank root = Rank{0});

// What the rank puts on the wire.
std::size_t elements_sent(const Schedule& schedule);

// As people write it: "all-reduce".
std::string_view name_of(Operation operation);

}  // namespace tutti::collectives
