#include "observe/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace tutti::observe {
namespace {

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

Machine describe_machine() {
  utsname name{};
  ::uname(&name);
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return {.cpu = processor(),
          .cores = ::sysconf(_SC_NPROCESSORS_ONLN),
          .memory_bytes = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
          .kernel = std::string(name.sysname) + " " + name.release};
}

}  // namespace tutti::observe
