// `tutti doctor -H ...`: what a long run on these hosts would stumble over, before it.
#pragma once

#include <vector>

#include "cli/host_flags.h"

namespace tutti::cli {

// Prints a table of the hosts, one of the links between those that can be used, and every problem in a line.
// 1 if a host cannot be used, else 0.
int doctor_hosts(const std::vector<config::Host>& hosts, const launch::HostOptions& options);

}  // namespace tutti::cli
