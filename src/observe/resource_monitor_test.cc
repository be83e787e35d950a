#include "observe/resource_monitor.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <sstream>

#include "base/scratch_folder.h"

namespace tutti::observe {
namespace {

TEST(ResourceMonitor, WritesWhoseSamplesTheyAreThenOneAtTheBeginningAndOneAtTheEnd) {
  const ScratchFolder folder;
  const auto path = samples_path(folder.path(), Rank{3});
  EXPECT_EQ(path.filename(), "samples-rank-3.jsonl");
  { const ResourceMonitor sampler(path, Rank{3}, "server"); }
  std::istringstream lines(read_file(path));
  std::vector<nlohmann::json> read;
  for (std::string line; std::getline(lines, line);) read.push_back(nlohmann::json::parse(line));
  ASSERT_GE(read.size(), 3U);
  EXPECT_EQ(read[0]["rank"], 3);
  EXPECT_EQ(read[0]["role"], "server");
  EXPECT_GE(read[0]["cores"], 1);
  EXPECT_LE(read[1]["time"], read.back()["time"]);
}

TEST(ResourceMonitor, CountsWhatTheProcessTakes) {
  const auto before = take_sample();
  std::vector<char> touched(32 << 20, 1);
  auto after = take_sample();
  EXPECT_GT(after["resident_bytes"], before["resident_bytes"].get<std::int64_t>() + (16 << 20));
  while (after["cpu_seconds"] <= before["cpu_seconds"]) {
    for (char& c : touched) c = static_cast<char>(c + 1);
    after = take_sample();
  }
  EXPECT_GE(after["time"], before["time"]);
}

TEST(ResourceMonitor, PeakStaysWhenMemoryIsGivenBack) {
  const auto before = take_sample()["resident_bytes"].get<std::int64_t>();
  constexpr std::size_t kBytes = 64 << 20;  // not by malloc, which may keep what is freed
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  ::munmap(memory, kBytes);
  EXPECT_GT(peak_memory_bytes(), before + (32 << 20));
  EXPECT_LT(take_sample()["resident_bytes"], before + (32 << 20));
}

TEST(ResourceMonitor, AFileThatCannotBeMadeIsAnError) {
  EXPECT_THROW(ResourceMonitor("/nowhere/samples.jsonl", Rank{0}, "worker"), std::exception);
}

}  // namespace
}  // namespace tutti::observe
