// A file that any process of a host can map as it is.
#pragma once

#include <string>

#include "base/file.h"

namespace tutti::data {

struct PlainFile {
  std::string path;
  UniqueFd keep_open;  // empty for a file that is on disk
};

// An anonymous file in memory as one that children inherit: its descriptor N is no longer close-on-exec, and
// `path` is "/proc/self/fd/N", good here and in children for as long as `keep_open` lives. Throws RunError.
PlainFile share_with_children(UniqueFd memory);

}  // namespace tutti::data
