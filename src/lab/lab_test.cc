#include <gtest/gtest.h>

#include "base/error.h"
#include "lab/bench_allreduce.h"
#include "lab/compare.h"
#include "lab/run.h"
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

TEST(Compare, LocalHasOneWorkerAndOthersAreMeasuredFromTwo) {
  CompareSpec spec;
  spec.base.out = "o";
  spec.strategies = {"local", "ring"};
  spec.workers = {1, 2, 3};
  const auto cells = plan_cells(spec);
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0].folder, "o/local-1");
  EXPECT_EQ(cells[2].folder, "o/ring-3");
  spec.strategies = {"nonsense"};
  EXPECT_THROW(plan_cells(spec), ConfigError);
}

nlohmann::json summary(double speed, double exposed) {
  return {{"samples_per_second", speed},    {"step_ms", {{"median", 1.0}}},  {"exchange_ms", 1.0},
          {"exposed_exchange_ms", exposed}, {"bytes_sent_per_worker", 1000}, {"steps", 10},
          {"test_accuracy", nullptr},       {"parameters_sha256", "a"},      {"replicas_sha256", {"a", "a"}}};
}

TEST(Compare, TableShowsSpeedUpAndFailuresAndVerdictItsReason) {
  const std::vector<Cell> cells = {{"local", 1, "", summary(100, 0), ""},
                                   {"ring", 2, "", summary(190, 1), ""},
                                   {"reduce-broadcast", 2, "", summary(120, 9), ""},
                                   {"allreduce", 2, "", nullptr, "rank 1 was killed"}};
  const auto table = render_table(cells);
  EXPECT_NE(table.find("1.90x"), std::string::npos) << table;
  EXPECT_NE(table.find("rank 1 was killed"), std::string::npos) << table;
  const auto text = verdict(cells);
  EXPECT_NE(text.find("ring: 1.58 times the throughput of reduce-broadcast"), std::string::npos) << text;
}

TEST(Run, ReplicasThatDifferAreSeen) {
  auto s = summary(1, 1);
  EXPECT_TRUE(replicas_agree(s));
  s["replicas_sha256"][1] = "b";
  EXPECT_FALSE(replicas_agree(s));
}

}  // namespace
}  // namespace tutti::lab
