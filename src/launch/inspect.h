// Looks at hosts before a job is run on them: an agent on each (launch/agent.h) says who it is and what time
// it has, and ends.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/agent.h"
#include "launch/hosts.h"

namespace tutti::launch {

struct Inspected {
  std::string name;
  std::optional<AgentHello> hello = {};  // nothing where the host cannot be used
  std::string problem = {};              // why not, as what follows its name
  std::string other_version = {};        // of tutti there, if that is why
  // How far its clock is ahead of ours, and by how much that may be wrong: half of the quickest way there and
  // back.
  double clock_ahead_s = 0;
  double clock_error_s = 0;
};

// In the order given; `on_each` is told of a host as soon as it is known, on this thread. `program` is this
// executable. Blocks until all have answered, about ten seconds at most. Throws RunError if nothing can be
// started here.
std::vector<Inspected> inspect(const std::vector<std::string>& hosts, const std::string& program,
                               const HostOptions& options,
                               const std::function<void(const Inspected&)>& on_each);

}  // namespace tutti::launch
