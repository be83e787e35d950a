// What a process takes of its host, seen from inside while it works: samples-rank-N.jsonl.
//
// The first line says whose samples they are, every other line is one sample:
//   {"rank": 0, "role": "worker", "cores": 1, "network": 4026531840}
//   {"time": 1731672000.25, "cpu_seconds": 1.92, "resident_bytes": 301465600,
//    "interfaces": {"eth0": {"rx_bytes": 1, "rx_packets": 1, "tx_bytes": 1, "tx_packets": 1}}, "gpus": []}
// All but time, memory and GPUs (observe/gpus.h) count up. Counters are those of the network namespace that
// the process is in, which "network" names: processes of one host see the same ones.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "base/rank.h"
#include "observe/gpus.h"
#include "observe/jsonl_sink.h"

namespace tutti::observe {

// Samples every 200 ms from its birth, on a thread of its own, and once more when it ends. A disk that is
// full ends the sampling, never the run.
class ResourceMonitor {
 public:
  // Appends to the file. Throws RunError if it cannot be made.
  ResourceMonitor(const std::filesystem::path& path, Rank rank, std::string_view role);
  ~ResourceMonitor();
  ResourceMonitor(const ResourceMonitor&) = delete;
  ResourceMonitor& operator=(const ResourceMonitor&) = delete;

 private:
  void run();

  JsonlSink file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

// The file of a rank in its run folder.
std::filesystem::path samples_path(const std::filesystem::path& run_folder, Rank rank);

// One sample of this process, as a line has it but for the GPUs.
nlohmann::json take_sample();

// The most that this process has had in memory at once, whoever else had a part of it too.
std::int64_t peak_memory_bytes();

}  // namespace tutti::observe
