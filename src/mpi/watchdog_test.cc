#include "mpi/watchdog.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace tutti::mpi {
namespace {

constexpr net::Activity kDoing{"all-reduce", "bucket 3"};

TEST(Watchdog, WatchesALongCallUntilItIsOver) {
  std::atomic<bool> seen = false;
  std::atomic<bool> let_go = false;
  std::string doing;
  Watchdog dog([&](const Watchdog::Over& over, const net::Activity& what) {
    EXPECT_FALSE(over(Clock::duration::zero()));
    doing = what.text();
    seen = true;
    seen.notify_all();
    while (!over(std::chrono::seconds(1))) {
    }
    let_go = true;
  });
  for (int i = 0; i < 3; ++i) {
    seen = let_go = false;
    {
      const std::string label = "bucket " + std::to_string(i);  // gone with the call
      const Watchdog::Call call(dog, {"all-reduce", label});
      seen.wait(false);
    }
    EXPECT_TRUE(let_go) << "nobody reads what the call was any more";
    EXPECT_EQ(doing, "all-reduce of bucket " + std::to_string(i));
  }
}

TEST(WatchdogDeathTest, EndsTheProcessWithTheReasonWhenACallIsInVain) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto call_in_vain = [] {
    Watchdog dog([](const Watchdog::Over&, const net::Activity& doing) {
      throw Timeout({Rank{0}, Rank{1}, doing.text(), std::chrono::milliseconds(2000)});
    });
    const Watchdog::Call call(dog, kDoing);
    std::atomic<bool> never = false;
    never.wait(false);
  };
  EXPECT_DEATH(call_in_vain(), "all-reduce of bucket 3");
}

}  // namespace
}  // namespace tutti::mpi
