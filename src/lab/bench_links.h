// How fast each pair of ranks of a job reaches the other: one pair at a time, over the job's own transport,
// as a training would.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "net/transport.h"

namespace tutti::lab {

inline constexpr const char* kBenchLinksTask = "bench-links";

struct Link {
  int from = 0;
  int to = 0;
  double there_bytes_per_second = 0;
  double back_bytes_per_second = 0;
  double round_trip_s = 0;  // the median of some, of a cache line each way
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Link, from, to, there_bytes_per_second, back_bytes_per_second,
                                   round_trip_s)

// What a rank reports that called another in vain while the job was being connected.
struct Unreached {
  int from = 0;
  int to = 0;           // below 0: the launcher, where ranks find each other
  std::string address;  // HOST:PORT
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Unreached, from, to, address)
inline constexpr const char* kUnreached = "unreached";  // what its report is called

// Every rank of the job calls it; the lower rank of a pair is told what was measured. A pair takes about half
// a second. Throws what the transport throws.
void bench_links(net::Transport& transport, const std::function<void(const Link&)>& on_link);

}  // namespace tutti::lab
