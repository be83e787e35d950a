// What the kernel knows about cores and processes.
#pragma once

#include <string>
#include <vector>

namespace tutti {

// The cores this process may run on.
std::vector<int> allowed_cores();

// Keeps the calling thread, and what it starts later, on these cores. Throws RunError.
void pin_to_cores(const std::vector<int>& cores);

// Names the calling thread for debuggers and `top -H`; at most 15 characters count.
void name_thread(const std::string& name);

// "SIGKILL" for 9.
std::string signal_name(int signal);

}  // namespace tutti
