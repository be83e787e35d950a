// What fuzzers have in common: input as a file, and errors that are answers.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace tutti::fuzz {

// A file in memory, called "/proc/self/fd/N" while this lives.
class File {
 public:
  explicit File(std::span<const std::byte> content) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    if (!fd_) throw_errno("memfd_create");
    write_all(fd_.get(), content, "input");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

// Calls `read`; refusing the input is a right answer.
template <typename Read>
int try_to(const Read& read) {
  try {
    read();
  } catch (const UsageError&) {
  } catch (const RunError&) {
  }
  return 0;
}

}  // namespace tutti::fuzz
