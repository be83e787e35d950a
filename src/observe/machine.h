// What a run was measured on.
#pragma once

#include <nlohmann/json.hpp>

namespace tutti::observe {

// "cpu" (the processor's name, where the kernel tells it), "cores" of the host,
// "memory_bytes", "kernel". Nothing that names the machine.
nlohmann::json describe_machine();

}  // namespace tutti::observe
