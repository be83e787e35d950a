// `ip` and `tc` of iproute2, run in a network namespace.
#pragma once

#include <string>
#include <vector>

namespace tutti::emulate {

// Where the tool lies. Throws ConfigError if it is not installed.
std::string path_of_tool(const std::string& name);

struct ToolRun {
  std::string name;                         // "ip" or "tc"
  std::vector<std::string> arguments = {};  // before the commands
  std::string commands = {};                // lines for -batch, if any
  int network = -1;                         // descriptor of the namespace to run in
  std::vector<int> inherit = {};            // descriptors that the commands name as /proc/self/fd/N
};

// What it prints. Blocks until it ends, at most ten seconds. Throws ConfigError if it is not installed,
// RunError with its own words if it fails.
std::string run_tool(const ToolRun& run);

}  // namespace tutti::emulate
