// What the kernel knows about cores and processes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tutti {

// The cores this process may run on.
std::vector<int> allowed_cores();

// Names the calling thread for debuggers and `top -H`; at most 15 characters count.
void name_thread(const std::string& name);

// The calling thread gets about a tenth of a core that others want, too.
void yield_to_others();

// Calls `work` on a thread of its own that has entered the network namespace of this descriptor: sockets made
// there belong to it, wherever they are used later. Returns when it is through. Throws what it throws, and
// RunError.
void in_network(int network, const std::function<void()>& work);

// Lets this process, and those it starts from now on, have so many descriptors open, as far as the system
// allows it; never fewer than before.
void allow_descriptors(std::size_t count);

// This process keeps the memory that it frees, for what it allocates next: glibc's malloc gives blocks of up
// to 32 MB back to the kernel only when the process ends. What a training step frees the next one asks for
// again; as pages that the kernel has to clear anew, that is up to a third of a step.
void keep_freed_memory();

// "SIGKILL" for 9.
std::string signal_name(int signal);

}  // namespace tutti
