#include "launch/cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "base/scratch_folder.h"

namespace tutti::launch {
namespace {

using Shares = std::vector<std::vector<int>>;

std::vector<int> numbers(int count) {
  std::vector<int> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// Cores of which nothing is known but their numbers.
std::vector<Core> plain(const std::vector<int>& ids) {
  std::vector<Core> cores;
  for (const int id : ids) cores.push_back({.id = id, .physical = id});
  return cores;
}

// The kernel's usual numbering: first threads of all cores, then the second ones.
std::vector<Core> with_second_threads_last(int physical) {
  std::vector<Core> cores;
  for (int id = 0; id < 2 * physical; ++id) cores.push_back({.id = id, .physical = id % physical});
  return cores;
}

TEST(ShareCores, NoTwoRanksShareACoreWhileThereAreEnough) {
  EXPECT_EQ(share_cores(plain({0, 1}), 2), (Shares{{0}, {1}}));
  EXPECT_EQ(share_cores(plain({0, 1, 4, 5, 6}), 2), (Shares{{0, 1}, {4, 5, 6}}));
  EXPECT_EQ(share_cores(plain({3}), 2), (Shares{{}, {}}));
  EXPECT_EQ(share_cores(plain({3}), 1), (Shares{{3}}));
}

TEST(ShareCores, WorkersAreSpreadWhereNothingIsKnown) {
  const auto shares = share_cores(plain(numbers(16)), 2);
  EXPECT_EQ(shares[0].front(), 0);
  EXPECT_EQ(shares[1].front(), 8);
}

TEST(ShareCores, HyperThreadsOfACoreBelongToOneWorker) {
  EXPECT_EQ(share_cores(with_second_threads_last(4), 2), (Shares{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(share_cores(with_second_threads_last(4), 4), (Shares{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(share_cores(with_second_threads_last(4), 3), (Shares{{0, 4}, {1, 5}, {2, 6, 3, 7}}));
}

TEST(ShareCores, WorkersShareAPhysicalCoreOnlyWhenThereIsNoOther) {
  EXPECT_EQ(share_cores(with_second_threads_last(4), 5), (Shares{{0}, {4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(share_cores(with_second_threads_last(2), 4), (Shares{{0}, {2}, {1}, {3}}));
  // Of one core only one thread may be used: the others take the third worker.
  const std::vector<Core> uneven = {
      {.id = 0, .physical = 0}, {.id = 1, .physical = 1}, {.id = 5, .physical = 1}};
  EXPECT_EQ(share_cores(uneven, 3), (Shares{{0}, {1}, {5}}));
  // Two cores of four threads each: the first takes the fifth worker.
  std::vector<Core> wide;
  for (int id = 0; id < 8; ++id) wide.push_back({.id = id, .physical = id % 2});
  EXPECT_EQ(share_cores(wide, 5), (Shares{{0}, {2}, {4, 6}, {1, 3}, {5, 7}}));
}

TEST(ShareCores, AWorkersCoresLieInOneCacheAndPackage) {
  // Even numbers in one package, odd ones in the other; within a package two caches.
  std::vector<Core> cores;
  for (int id = 0; id < 8; ++id)
    cores.push_back({.id = id, .physical = id, .cache = id % 4, .package = id % 2});
  EXPECT_EQ(share_cores(cores, 2), (Shares{{0, 4, 2, 6}, {1, 5, 3, 7}}));
  EXPECT_EQ(share_cores(cores, 4), (Shares{{0, 4}, {2, 6}, {1, 5}, {3, 7}}));
}

TEST(ShareCores, EveryCoreGoesToOneWorkerAndEveryWorkerGetsOne) {
  for (int physical = 1; physical <= 9; ++physical) {
    for (int workers = 1; workers <= 2 * physical; ++workers) {
      std::vector<int> given;
      for (const auto& share : share_cores(with_second_threads_last(physical), workers)) {
        EXPECT_FALSE(share.empty()) << physical << " cores, " << workers << " workers";
        given.insert(given.end(), share.begin(), share.end());
      }
      std::ranges::sort(given);
      EXPECT_EQ(given, numbers(2 * physical));
    }
  }
}

TEST(ReadCores, TellsWhatTheKernelShows) {
  const ScratchFolder folder;
  const auto write = [&](const std::string& path, const std::string& text) {
    const auto at = folder.path() / path;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text << "\n";
  };
  write("cpu9/topology/thread_siblings_list", "1,9");
  write("cpu9/topology/physical_package_id", "3");
  write("cpu9/cache/index3/shared_cpu_list", "0-3,8-11");
  const auto cores = read_cores({9, 10}, folder.path());
  ASSERT_EQ(cores.size(), 2U);
  EXPECT_EQ(cores[0].id, 9);
  EXPECT_EQ(cores[0].physical, 1);
  EXPECT_EQ(cores[0].cache, 0);
  EXPECT_EQ(cores[0].package, 3);
  EXPECT_EQ(cores[1].id, 10);
  EXPECT_EQ(cores[1].physical, 10);  // nothing is known of it
}

}  // namespace
}  // namespace tutti::launch
