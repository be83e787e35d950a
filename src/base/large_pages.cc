#include "base/large_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace tutti {

std::vector<float> zeros_in_large_pages(std::size_t count) {
  std::vector<float> zeros;
  zeros.reserve(count);
  // Asked for before the first touch. Memory that is no whole page stays as it is, and so does all of it
  // where the system says no.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(zeros.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(zeros.data() + count) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  zeros.resize(count);
  return zeros;
}

}  // namespace tutti
