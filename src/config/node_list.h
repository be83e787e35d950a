// Lists of host names as SLURM writes them.
#pragma once

#include <string>
#include <vector>

namespace tutti::config {

// "gnode[08-10,20],login" as gnode08, gnode09, gnode10, gnode20, login. Several brackets in one name are
// multiplied out, the last one fastest. Throws ConfigError that shows the text.
std::vector<std::string> parse_node_list(const std::string& text);

}  // namespace tutti::config
