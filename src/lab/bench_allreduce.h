// The speed of an all-reduce, verified while it is timed.
//
// Each iteration fills the buffer anew (small integers, so that sums are exact), meets at a barrier, times
// one all-reduce and checks every element. An iteration's time is that of the slowest rank; a row's is the
// median over iterations. docs/benchmarks.md defines the same for the peers.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "collectives/collectives.h"
#include "engines/engines.h"
#include "net/transport.h"

namespace tutti::lab {

inline constexpr const char* kBenchTask = "bench-allreduce";

struct BenchSpec {
  std::vector<std::uint64_t> sizes;  // bytes
  std::string transport = "shm";     // for the rows
  std::string wire = "plain";        // likewise
  std::string algorithm = "auto";
  int iterations = 0;  // 0: as many as fit half a second, between 10 and 2000
  std::string engine = "native";
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchSpec, sizes, transport, wire, algorithm, iterations, engine)

// What the spec asks for. Every rank of the transport calls it, once: there is one engine a transport.
// The options' algorithm is the spec's. Throws ConfigError, and what EngineInfo::make throws.
std::unique_ptr<collectives::Collectives> make_engine(const BenchSpec& spec, net::Transport& transport,
                                                      engines::EngineOptions options);

// A collective call. The rows: bytes, seconds, ranks, transport, wire, engine, algorithm, reason, iterations,
// verified, bytes_per_second. Throws RunError if a result is wrong.
nlohmann::json bench_allreduce(collectives::Collectives& all, const BenchSpec& spec);

}  // namespace tutti::lab
