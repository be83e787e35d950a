// What a run puts on the links of an emulated cluster, predicted from its schedules.
//
// Every payload travels in frames of at most 1514 bytes, of which 1448 are payload; who receives them sends
// back acknowledgements, which are frames of a header alone. Handshakes, barriers and message headers are
// left out: they are small beside a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/compare.h"

namespace tutti::lab {

// Of a dense network; each worker has a host of its own, and so has each server that is not colocated.
struct RunShape {
  std::string strategy;
  int workers = 1;
  int servers = 0;
  bool colocate = false;
  double parameter_bytes = 0;
  std::int64_t steps = 0;
  std::uint64_t bucket_bytes = 1 << 20;
};

struct HostTraffic {
  double bytes_sent = 0;
  double packets_sent = 0;
  double bytes_received = 0;
  double packets_received = 0;
};

RunShape shape_of(const nlohmann::json& summary);

// By host: what all of a run sends, from the initial weights to the last parameters. A pure function.
// Throws ConfigError for a strategy that does not send the same in every step.
std::vector<HostTraffic> predict_traffic(const RunShape& shape);

// Bytes a second of payload that a link of so many bits a second carries.
double payload_rate(double bits_per_second);

}  // namespace tutti::lab
