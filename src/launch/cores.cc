#include "launch/cores.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>

namespace tutti::launch {
namespace {

// The first number of a file as "0-1,8-9", or `otherwise` if there is none.
int first_number(const std::filesystem::path& path, int otherwise) {
  std::ifstream file(path);
  int number = 0;
  return file >> number ? number : otherwise;
}

// Hyper-threads of one physical core.
using Threads = std::vector<int>;

// In an order in which neighbours have most in common.
std::vector<Threads> physical_cores(std::vector<Core> cores) {
  const auto place = [](const Core& c) { return std::tuple(c.package, c.cache, c.physical, c.id); };
  std::ranges::sort(cores, {}, place);
  std::vector<Threads> all;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (i == 0 || cores[i].physical != cores[i - 1].physical) all.emplace_back();
    all.back().push_back(cores[i].id);
  }
  return all;
}

std::size_t part_begin(std::size_t count, std::size_t parts, std::size_t part) {
  return count * part / parts;
}

// Several cores for each worker, or one.
std::vector<std::vector<int>> share_out(const std::vector<Threads>& cores, std::size_t workers) {
  std::vector<std::vector<int>> shares(workers);
  for (std::size_t w = 0; w < workers; ++w) {
    for (std::size_t c = part_begin(cores.size(), workers, w); c < part_begin(cores.size(), workers, w + 1);
         ++c) {
      shares[w].insert(shares[w].end(), cores[c].begin(), cores[c].end());
    }
  }
  return shares;
}

// Several workers for some cores: a core with most threads to a worker takes the next one.
std::vector<std::vector<int>> crowd(const std::vector<Threads>& cores, std::size_t workers) {
  std::vector<std::size_t> crews(cores.size(), 1);
  for (std::size_t more = workers - cores.size(); more > 0; --more) {
    std::size_t best = 0;
    for (std::size_t c = 1; c < cores.size(); ++c) {
      if (cores[c].size() * crews[best] > cores[best].size() * crews[c]) best = c;
    }
    ++crews[best];
  }
  std::vector<std::vector<int>> shares;
  for (std::size_t c = 0; c < cores.size(); ++c) {
    for (std::size_t w = 0; w < crews[c]; ++w) {
      const auto at = [&](std::size_t part) {
        return cores[c].begin() + static_cast<std::ptrdiff_t>(part_begin(cores[c].size(), crews[c], part));
      };
      shares.emplace_back(at(w), at(w + 1));
    }
  }
  return shares;
}

}  // namespace

std::vector<Core> read_cores(const std::vector<int>& ids, const std::filesystem::path& folder) {
  std::vector<Core> cores;
  for (const int id : ids) {
    const auto core = folder / ("cpu" + std::to_string(id));
    cores.push_back({.id = id,
                     .physical = first_number(core / "topology/thread_siblings_list", id),
                     .cache = first_number(core / "cache/index3/shared_cpu_list", 0),
                     .package = first_number(core / "topology/physical_package_id", 0)});
  }
  return cores;
}

std::vector<std::vector<int>> share_cores(std::vector<Core> cores, int workers) {
  const auto w = static_cast<std::size_t>(workers);
  if (cores.size() < w) return std::vector<std::vector<int>>(w);
  const auto physical = physical_cores(std::move(cores));
  return physical.size() >= w ? share_out(physical, w) : crowd(physical, w);
}

}  // namespace tutti::launch
