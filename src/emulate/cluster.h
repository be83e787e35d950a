// A cluster on one machine: every host a network namespace, with a link of its own to one switch.
//
//      host 0               host 1               host 2
//      eth0 10.77.1.0       eth0 10.77.1.1       eth0 10.77.1.2
//        │ shaped             │ shaped             │ shaped        what the host sends
//        │ shaped             │ shaped             │ shaped        what the switch sends to the host
//      port0                port1                port2
//        └────────────────────┴── a bridge ────────┘  10.77.0.1, where the ranks find the launcher
//
// The switch is a namespace, too, and none of them has a name: only our descriptors and the processes inside
// hold them. Nothing of the machine's own network is touched, clusters of several launchers cannot meet, and
// when a launcher ends, however it ends, the kernel takes its cluster away.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "config/emulation.h"
#include "launch/launcher.h"
#include "observe/summary.h"

namespace tutti::emulate {

// What has passed a host's link: Ethernet frames of at most 1514 bytes as a wire would carry them, also where
// the kernel moves several at once.
struct Traffic {
  std::uint64_t bytes_sent = 0;
  std::uint64_t packets_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t packets_received = 0;
  std::uint64_t packets_dropped = 0;  // either way: a queue was full
};

// What a host calls its link, and where it is found.
inline constexpr const char* kInterface = "eth0";
std::string address_of(std::size_t host);

// Lives on one thread.
class Cluster {
 public:
  // One host for each of `processes` if the emulation names no number. Throws ConfigError if this machine
  // cannot: no root, no tools, a kernel that refuses.
  Cluster(config::Emulation emulation, int processes);

  int hosts() const { return static_cast<int>(hosts_.size()); }

  // Where a process on this host lives.
  launch::Place place_of(std::size_t host) const;

  // Runs a job over TCP, its processes dealt to the hosts in turn, and says what passed the links meanwhile.
  // Throws as launch::run.
  std::pair<launch::Outcome, observe::Emulated> run(launch::JobSpec job,
                                                    const launch::Listener& listener) const;

  // Bytes a second that a plain TCP stream from one host to another delivers, over about a second; 0 with
  // only one host.
  double measure_link() const;

  // By host, since the cluster was made. Throws RunError.
  std::vector<Traffic> traffic() const;

 private:
  void build();

  config::Emulation emulation_;
  UniqueFd switch_;
  std::vector<UniqueFd> hosts_;
};

// Throws ConfigError that says what is missing to make a Cluster.
void require_means();

}  // namespace tutti::emulate
