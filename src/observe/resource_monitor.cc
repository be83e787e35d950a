#include "observe/resource_monitor.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/process.h"

namespace tutti::observe {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(200);

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Not /sys/class/net, which shows the namespace of whoever mounted it.
nlohmann::json interfaces() {
  auto all = nlohmann::json::object();
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;  // the two lines of headings
    const auto first = line.find_first_not_of(' ');
    std::istringstream numbers(line.substr(colon + 1));
    std::uint64_t rx_bytes = 0;
    std::uint64_t rx_packets = 0;
    std::uint64_t other = 0;
    std::uint64_t tx_bytes = 0;
    std::uint64_t tx_packets = 0;
    numbers >> rx_bytes >> rx_packets;
    for (int i = 0; i < 6; ++i) numbers >> other;
    numbers >> tx_bytes >> tx_packets;
    if (!numbers || rx_packets + tx_packets == 0) continue;
    all[line.substr(first, colon - first)] = {{"rx_bytes", rx_bytes},
                                              {"rx_packets", rx_packets},
                                              {"tx_bytes", tx_bytes},
                                              {"tx_packets", tx_packets}};
  }
  return all;
}

std::uint64_t network_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/net", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

std::filesystem::path samples_path(const std::filesystem::path& run_folder, Rank rank) {
  return run_folder / fmt::format("samples-rank-{}.jsonl", to_int(rank));
}

nlohmann::json take_sample() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {{"time", std::chrono::duration<double>(now).count()},
          {"cpu_seconds", cpu_seconds()},
          {"resident_bytes", resident_bytes()},
          {"interfaces", interfaces()}};
}

// Not getrusage, which begins with what the parent had when it started this process.
std::int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  std::int64_t kilobytes = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) std::istringstream(line.substr(6)) >> kilobytes;
  }
  return kilobytes << 10;
}

ResourceMonitor::ResourceMonitor(const std::filesystem::path& path, Rank rank, std::string_view role)
    : file_(path) {
  file_.write_line({{"rank", to_int(rank)},
                    {"role", role},
                    {"cores", allowed_cores().size()},
                    {"network", network_namespace()}});
  thread_ = std::thread([this] { run(); });
}

ResourceMonitor::~ResourceMonitor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ResourceMonitor::run() {
  name_thread("tutti-sampler");
  try {
    file_.write_line(take_sample());  // the driver of a GPU may take its time
    const Gpus gpus;
    bool more = true;
    while (more) {
      std::unique_lock lock(mutex_);
      more = !changed_.wait_for(lock, kInterval, [this] { return stop_; });
      lock.unlock();
      auto sample = take_sample();
      sample["gpus"] = gpus.sample();
      file_.write_line(sample);
    }
  } catch (const RunError&) {  // a run is worth more than its samples
  }
}

}  // namespace tutti::observe
