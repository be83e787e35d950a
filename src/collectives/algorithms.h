// The table of algorithms: what each is called, its rounds, and which calls it can serve.
//
// A new one is a file, with a function that describes it, and a line in algorithms.inc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "collectives/reduce.h"
#include "collectives/schedule.h"

namespace tutti::collectives {

struct WorkInPlace;

// How what a call moves gets from rank to rank: read where it lies, in memory that all of them map; as
// messages through such memory; or as messages over links.
enum class Path { in_place, shared_memory, network };

struct Call {
  Operation operation{};
  ReduceOp op{};
  std::uint64_t bytes = 0;
  int world = 1;
  Path path{};
  // That the ranks are on, where those of one can also reduce in shared memory; else 1.
  int hosts = 1;
};

// What make_schedule was asked for. Never a barrier, and world > 1: make_schedule settles these for all
// algorithms.
struct Task {
  Operation operation{};
  int rank = 0;
  int world = 1;
  std::size_t count = 0;
  int root = 0;
};

// Runs a work (executor.h) in memory that all ranks see. `clock` is the count of ticks that all ranks have
// behind them; returns the count after this.
using RunInPlace = std::uint64_t(const WorkInPlace& work, std::uint64_t clock);

// By its rounds. The buffer lies in the rank's arena, at the same offset on every rank. A rank ticks when it
// has come and after each round.
//
// A rank that comes announces the work, ticks, waits until all have come and holds what each of them
// announced against its own: if they differ, that is a ProtocolError, before a byte is read, and on every
// rank, because none waits for more than that all have come. A rank may be in the next work while another
// still looks at this one, but not in the one after that; so two announcements are kept.
//
// Round k of a rank: wait until whoever it receives from has come and done its rounds before k, combine or
// copy straight out of their buffers, tick, and wait until whoever it sends to has done round k, because only
// then may its own buffer change. A round without data for a rank still ticks, so that all clocks agree.
RunInPlace run_in_place;

struct AlgorithmInfo {
  std::string_view name;                        // as people write it
  std::string_view summary;                     // one line for help
  Schedule (*schedule)(const Task&) = nullptr;  // of one rank; none across hosts
  // Across hosts it is made of others, inside and between them (hierarchical.h).
  enum class Runs { anywhere, by_messages, in_place, across_hosts } runs = Runs::anywhere;
  bool all_reduce_only = false;  // and barriers
  // Whether it can serve a call that fits all this; nullptr: any.
  bool (*can_serve)(const Call&) = nullptr;
  // In place. One of its own instead of the rounds begins with begin_together() (executor.h) and divides
  // averages, too; the schedule then only tells who reads what.
  RunInPlace* in_place = run_in_place;
};

// In the order of Algorithm.
std::span<const AlgorithmInfo> algorithms();
const AlgorithmInfo& info_of(Algorithm algorithm);
std::string_view name_of(Algorithm algorithm);

bool serves(Algorithm algorithm, const Call& call);
// Whether it has the operation at all.
bool has(Algorithm algorithm, Operation operation);

// Nothing for "auto", which leaves it to choose(). Throws ConfigError that lists the names.
std::optional<Algorithm> parse_algorithm(std::string_view text);

// ---- what their files build rounds with ----

enum class Arrival { replace, combine };

// Add to a round, unless the chunk is empty (rule 4).
void send(Round& round, int peer, Chunk chunk);
void receive(Round& round, int peer, Chunk chunk, Arrival arrival);

// Chunks [first, last) of `count` elements in `chunks` equal ones, as one.
Chunk chunk_range(std::size_t count, int chunks, int first, int last);

// a mod n, from 0 to n - 1 also where a is negative.
constexpr int wrap(int a, int n) {
  return ((a % n) + n) % n;
}

}  // namespace tutti::collectives
