#include "report/verdict.h"

#include <gtest/gtest.h>

#include "report/cells_fixture.h"

namespace tutti::report {
namespace {

using fixture::cell;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Verdict, NamesTheFastestWithItsReason) {
  const auto text = verdict({cell("local", 1, 100),
                             cell("ring", 2, 190, 1),
                             cell("reduce-broadcast", 2, 120, 9),
                             {"allreduce", 2, "", nullptr, "rank 1 was killed"}});
  EXPECT_TRUE(has(text, "ring: 1.58 times the throughput of reduce-broadcast")) << text;
  EXPECT_TRUE(has(text, "waits 1.00 ms for its exchange, against 9.00 ms")) << text;
  EXPECT_TRUE(has(text, "1.90 times as fast as one worker")) << text;
}

TEST(Verdict, SaysWhenNothingStandsOut) {
  EXPECT_TRUE(has(verdict({cell("ring", 2, 100, 3), cell("ps-sync", 2, 99, 2)}), "No strategy stands out"));
  // Far apart in the median, but their repeats overlap.
  EXPECT_TRUE(has(verdict({cell("ring", 2, std::vector<double>{80, 100, 120}),
                           cell("ps-sync", 2, std::vector<double>{70, 80, 90})}),
                  "No strategy stands out"));
}

TEST(Verdict, NamesThoseThatAreAsFast) {
  const auto text = verdict({cell("ring", 2, 200), cell("allreduce", 2, 198), cell("ps-sync", 2, 100, 9)});
  EXPECT_TRUE(has(text, "As fast, as far as this can tell: allreduce.")) << text;
}

TEST(Verdict, SaysWhatSpeedCosts) {
  const auto text = verdict({cell("ps-async", 2, 200, 0, 0.80), cell("ring", 2, 100, 9, 0.90)});
  EXPECT_TRUE(has(text, "Its test accuracy is 80.0 %; ring reaches 90.0 % in as many steps.")) << text;
  const auto slower = verdict({cell("ring", 2, 200, 0, 0.90), cell("ps-async", 2, 100, 9, 0.80)});
  EXPECT_TRUE(has(slower, "ring reaches a test accuracy of 90.0 %, ps-async only 80.0 %")) << slower;
  EXPECT_FALSE(has(verdict({cell("ring", 2, 200), cell("ps-sync", 2, 100, 9)}), "accuracy"));
}

TEST(Verdict, LeavesOutWhatIsInDoubtAndWhatIsAlone) {
  auto doubtful = cell("hogwild", 2, 900);
  doubtful.doubt = "its replicas differ";
  const auto text = verdict({doubtful, cell("ring", 2, 200), cell("ps-sync", 2, 100, 9)});
  EXPECT_TRUE(text.starts_with("ring:")) << text;
  EXPECT_EQ(verdict({cell("local", 1, 100)}), "");
  EXPECT_EQ(verdict({}), "");
}

TEST(Verdict, SpeaksOfEachModel) {
  std::vector<Cell> cells = {cell("ring", 2, 200), cell("ps-sync", 2, 100), cell("ring", 2, 10),
                             cell("ps-sync", 2, 20)};
  for (std::size_t i = 0; i < 4; ++i) cells[i].model = i < 2 ? "small" : "large";
  const auto text = verdict(cells);
  EXPECT_TRUE(has(text, "small: ring: 2.00 times")) << text;
  EXPECT_TRUE(has(text, "large: ps-sync: 2.00 times")) << text;
}

}  // namespace
}  // namespace tutti::report
