#include "lab/bench_emulated.h"

#include <gtest/gtest.h>

namespace tutti::lab {
namespace {

TEST(BenchEmulated, BusiestLinkOfAnAllReduceIsEveryRanks) {
  EXPECT_DOUBLE_EQ(passes_of_busiest_link({{"ranks", 2}}, 2), 1);
  EXPECT_DOUBLE_EQ(passes_of_busiest_link({{"ranks", 8}}, 8), 1.75);
  EXPECT_DOUBLE_EQ(passes_of_busiest_link({{"ranks", 8}}, 12), 1.75) << "some hosts have none";
}

TEST(BenchEmulated, RanksThatShareAHostAddUpBeforeItsLink) {
  EXPECT_DOUBLE_EQ(passes_of_busiest_link({{"ranks", 4}}, 2), 1);
  EXPECT_DOUBLE_EQ(passes_of_busiest_link({{"ranks", 8}}, 4), 1.5);
}

TEST(BenchEmulated, BusiestLinkOfServersIsTheirsUntilItIsTheWorkers) {
  const auto passes = [](int workers, int servers) {
    return passes_of_busiest_link({{"ranks", workers + servers}, {"workers", workers}, {"servers", servers}},
                                  workers + servers);
  };
  EXPECT_DOUBLE_EQ(passes(4, 1), 4);
  EXPECT_DOUBLE_EQ(passes(4, 2), 2);
  EXPECT_DOUBLE_EQ(passes(4, 4), 1);
  EXPECT_DOUBLE_EQ(passes(2, 4), 1);
}

}  // namespace
}  // namespace tutti::lab
