#include <gtest/gtest.h>

#include "lab/bench_allreduce.h"
#include "net/inproc.h"

namespace tutti::lab {
namespace {

TEST(BenchAllreduce, RowsAreVerifiedAndSaySize) {
  net::run_as_threads(net::Medium::memory, 3, std::chrono::seconds(60), [](net::Transport& t) {
    collectives::Communicator all(t);
    const auto rows = bench_allreduce(all, {.sizes = {1024, 4000}, .transport = "inproc", .iterations = 4});
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[1]["bytes"], 4000);
    EXPECT_EQ(rows[1]["ranks"], 3);
    EXPECT_EQ(rows[1]["verified"], true);
    EXPECT_GT(rows[1]["seconds"], 0.0);
  });
}

}  // namespace
}  // namespace tutti::lab
