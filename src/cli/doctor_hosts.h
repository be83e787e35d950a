// `tutti doctor -H ...`: what a long run on these hosts would stumble over, before it.
#pragma once

#include <vector>

#include "cli/host_flags.h"

namespace tutti::cli {

// Prints a table of the hosts, one of the links between those that can be used, over the interface and ports
// that a job would use, and every problem in a line. 1 if there is one, else 0. Throws ConfigError.
int doctor_hosts(const std::vector<config::Host>& hosts, const launch::HostOptions& options,
                 const ListenFlags& listen);

}  // namespace tutti::cli
