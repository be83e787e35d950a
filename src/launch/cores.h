// Which cores each worker of a job runs on.
//
// Two threads of one physical core are worth little more than one core, so a worker that has to share one
// with another worker is slow. Shares are cut along what the machine shows of itself: hyper-threads of a core
// belong to one worker as long as there is a core for each, and workers are spread over all cores that they
// may use. A virtual machine may show its hyper-threads as cores; neighbours by number are then often one
// core, and spreading keeps workers apart there, too.
#pragma once

#include <filesystem>
#include <vector>

namespace tutti::launch {

// A core that the kernel schedules on, and where it lies. Where two agree in a number they share the thing.
struct Core {
  int id = 0;
  int physical = 0;  // the lowest id among its hyper-threads
  int cache = 0;     // the lowest id among those who share its last-level cache
  int package = 0;
};

// What the kernel tells about these cores. What it does not tell is as if each were a physical core of its
// own beside the others.
std::vector<Core> read_cores(const std::vector<int>& ids,
                             const std::filesystem::path& folder = "/sys/devices/system/cpu");

// The ids that each worker gets, each id at most once: all of them, in shares as equal as may be, if there is
// one for each worker; else none for anybody (the kernel balances). A pure function.
std::vector<std::vector<int>> share_cores(std::vector<Core> cores, int workers);

}  // namespace tutti::launch
