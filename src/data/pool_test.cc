#include "data/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <stdexcept>

namespace tutti::data {
namespace {

TEST(Pool, DoesEveryPartOnceWithAnyNumberOfThreads) {
  for (const std::size_t threads : {1U, 2U, 5U}) {
    Pool pool(threads, "test");
    for (const std::size_t count : {0U, 1U, 3U, 1000U}) {
      std::vector<std::atomic<int>> done(count);
      pool.for_each(count, [&](std::size_t i) { ++done[i]; });
      for (const auto& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(Pool, PartsRunAtTheSameTime) {
  Pool pool(3, "test");
  std::barrier meeting(3);  // nobody gets on unless three are there
  pool.for_each(3, [&](std::size_t) { meeting.arrive_and_wait(); });
}

TEST(Pool, RethrowsTheFailureOfTheSmallestPartAndGoesOn) {
  Pool pool(4, "test");
  for (int round = 0; round < 100; ++round) {
    std::string said;
    try {
      pool.for_each(100, [](std::size_t i) {
        if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& e) {
      said = e.what();
    }
    ASSERT_EQ(said, "7");
  }
  std::atomic<int> done = 0;
  pool.for_each(10, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, 10);
}

TEST(Pool, ManyMayCallItAtOnce) {
  Pool pool(2, "test");
  std::atomic<int> done = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) pool.for_each(7, [&](std::size_t) { ++done; });
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(done, 4 * 50 * 7);
}

}  // namespace
}  // namespace tutti::data
