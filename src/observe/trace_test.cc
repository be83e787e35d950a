#include "observe/trace.h"

#include <gtest/gtest.h>

namespace tutti::observe {
namespace {

using std::chrono::milliseconds;

TEST(Trace, RanksAreJoinedOnOneClockThatStartsAtZero) {
  const auto t0 = Clock::now();
  Trace a(true, Rank{0});
  Trace b(true, Rank{1});
  a.add(Lane::compute, "forward", t0 + milliseconds(5), t0 + milliseconds(9));
  b.add(Lane::waiting, "bucket 0", t0 + milliseconds(2), t0 + milliseconds(3));
  const auto joined = join_traces({a.events(), b.events()});
  std::map<std::string, double> starts;
  for (const auto& e : joined["traceEvents"]) {
    if (e["ph"] == "X") starts[e["name"]] = e["ts"];
  }
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_NEAR(starts["bucket 0"], 0, 1e-3);
  EXPECT_NEAR(starts["forward"], 3000, 1e-3);
}

TEST(Trace, DisabledKeepsNothing) {
  Trace t(false, Rank{0});
  t.add(Lane::compute, "forward", Clock::now(), Clock::now());
  for (const auto& e : t.events()) EXPECT_EQ(e["ph"], "M");
}

}  // namespace
}  // namespace tutti::observe
