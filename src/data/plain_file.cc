#include "data/plain_file.h"

#include <fcntl.h>

#include "base/error.h"

namespace tutti::data {

PlainFile share_with_children(UniqueFd memory) {
  if (::fcntl(memory.get(), F_SETFD, 0) != 0) throw_errno("cannot let children inherit a memory file");
  return {fmt::format("/proc/self/fd/{}", memory.get()), std::move(memory)};
}

}  // namespace tutti::data
