// The speed of parameter servers, verified while it is timed.
//
// Workers push a gradient of small integers, servers subtract its mean, workers pull: after n rounds every
// parameter is known exactly and is checked. A round's time is that of the slowest worker; a row's is the
// median over rounds.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "net/transport.h"

namespace tutti::lab {

inline constexpr const char* kBenchPsTask = "bench-ps";

struct BenchPsSpec {
  std::vector<std::uint64_t> sizes;  // bytes of the model
  std::uint64_t table_rows = 0;      // above 0: also a table, of which each step touches some rows
  std::uint64_t table_width = 64;    // floats a row
  double touch = 0.01;               // of its rows
  int partitions = 1;
  int workers = 1;
  int servers = 1;
  std::string transport = "shm";  // for the rows
  std::string wire = "plain";     // likewise
  std::uint64_t piece_bytes = 0;  // 0: what suits the transport
  int iterations = 0;             // 0: as many as fit half a second, between 10 and 2000
  std::int64_t timeout_ms = 30'000;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchPsSpec, sizes, table_rows, table_width, touch, partitions, workers,
                                   servers, transport, wire, piece_bytes, iterations, timeout_ms)

// Every rank of the job calls it. Rank 0's result are the rows: for each size one of "push", one of "pull"
// and one of "push+pull", with bytes, seconds, ranks, transport, wire, algorithm (which of the three),
// workers, servers, iterations, verified, bytes_per_second (each way) and memcpy_bytes_per_second, one core's
// in the same run. Null on other ranks. For a table two rows more, both of the whole step: "dense table", all
// of it pushed and pulled, and "sparse table", the touched rows alone, with bytes_sent (by a worker in a
// step) and touched_rows. Throws RunError if a result is wrong.
nlohmann::json bench_ps(net::Transport& everyone, const BenchPsSpec& spec);

}  // namespace tutti::lab
