// Runs a job on several hosts: an agent on each (launch/agent.h), started over ssh.
//
// The job's secret and everything else travel through ssh's standard input; the only text that a remote shell
// reads is the program's path, quoted. ssh asks nothing (BatchMode), so keys must be in place, and a host
// that is not known is refused as ssh's own settings say.
#pragma once

#include <string>
#include <vector>

#include "launch/launcher.h"

namespace tutti::launch {

// A host, and the ranks that start on it. "localhost" is this one, without ssh.
struct HostPart {
  std::string name;
  std::vector<Rank> ranks;
};

struct HostOptions {
  std::string ssh = "/usr/bin/ssh";
  std::string ssh_config;  // a file for ssh's -F; empty: the user's own
  std::string program;     // the path of tutti on every other host
};

// Runs the job to its end, as run() does, and ends what is left of it on every host. A host that cannot be
// reached, has another version or none, or goes silent is named. The ranks of all parts are those of the job.
// Throws RunError if it cannot be started here, ConfigError where a host has another version of the program.
Outcome run_on_hosts(const JobSpec& spec, const std::vector<HostPart>& hosts, const HostOptions& options,
                     const Listener& listener);

}  // namespace tutti::launch
