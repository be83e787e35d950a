// What a run was measured on.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::observe {

// Nothing that names the machine.
struct Machine {
  std::string cpu;  // the processor's name, where the kernel tells it
  std::int64_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::string kernel;
  bool operator==(const Machine&) const = default;
};

Machine describe_machine();

}  // namespace tutti::observe
