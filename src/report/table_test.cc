#include "report/table.h"

#include <gtest/gtest.h>

#include "report/cells_fixture.h"

namespace tutti::report {
namespace {

using fixture::cell;

std::string line_with(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  if (at == std::string::npos) return "";
  const auto begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

TEST(Table, ShowsSpeedUpAndFailures) {
  const auto table = render_table(
      {cell("local", 1, 100), cell("ring", 2, 190), {"allreduce", 2, "", nullptr, "rank 1 was killed"}});
  EXPECT_NE(line_with(table, "ring").find("1.90x"), std::string::npos) << table;
  EXPECT_NE(line_with(table, "allreduce").find("rank 1 was killed"), std::string::npos) << table;
}

TEST(Table, ShowsTheMedianOfRepeatsAndHowFarTheOthersAre) {
  const auto row = line_with(render_table({cell("ring", 2, std::vector<double>{110, 95, 100})}), "ring");
  EXPECT_NE(row.find(" 100 "), std::string::npos) << row;
  EXPECT_NE(row.find("10.0 %"), std::string::npos) << row;
}

TEST(Table, ShowsWhatWaitsAndWhatRuns) {
  const std::vector<Cell> cells = {{"ring", 2, "", nullptr, ""}, {"ps-sync", 2, "", nullptr, ""}};
  EXPECT_NE(line_with(render_table(cells, {"step 3/9", "waits"}), "ring").find("step 3/9"),
            std::string::npos);
  EXPECT_NE(line_with(render_table(cells), "ring").find("did not run"), std::string::npos);
}

TEST(Table, ModelsAreApartAndEachHasItsBaseline) {
  std::vector<Cell> cells = {cell("local", 1, 100), cell("ring", 2, 150), cell("local", 1, 10),
                             cell("ring", 2, 19)};
  for (std::size_t i = 0; i < 4; ++i) cells[i].model = i < 2 ? "small" : "large";
  const auto table = render_table(cells);
  EXPECT_NE(table.find("1.50x"), std::string::npos) << table;
  EXPECT_NE(table.find("1.90x"), std::string::npos) << table;
  EXPECT_EQ(line_with(table, "large"), "large");
}

TEST(Table, AVariantIsNamedWithItsStrategy) {
  auto sharded = cell("ps-sync", 2, 100);
  sharded.variant = "2 servers";
  EXPECT_EQ(name_of(sharded), "ps-sync, 2 servers at 2 workers");
  EXPECT_EQ(nlohmann::json(sharded).get<Cell>().variant, "2 servers");
  EXPECT_NE(line_with(render_table({sharded, cell("ps-sync", 2, 50)}), "ps-sync, 2 servers"), "");
}

TEST(Table, ADoubtIsSaidBelow) {
  auto doubtful = cell("ring", 2, 100);
  doubtful.doubt = "used other samples than ps-sync at 2 workers";
  EXPECT_EQ(line_with(render_table({doubtful}), "used other"),
            "ring at 2 workers: used other samples than ps-sync at 2 workers");
}

TEST(Table, ReplicasThatDifferAndAccuraciesThatAreUnknownAreSeen) {
  auto odd = cell("ring", 2, 100);
  EXPECT_NE(line_with(render_table({odd}), "ring").find("90.00 % equal"), std::string::npos);
  odd.summary["replicas_sha256"][1] = "b";
  odd.summary["test_accuracy"] = nullptr;
  EXPECT_NE(line_with(render_table({odd}), "ring").find("- DIFFER"), std::string::npos)
      << render_table({odd});
}

TEST(Cell, SurvivesTheWayThroughJson) {
  const auto before = cell("ring", 2, std::vector<double>{3, 1, 2});
  EXPECT_EQ(speed(before), 2);
  const nlohmann::json json = before;
  const auto after = json.get<Cell>();
  EXPECT_EQ(nlohmann::json(after), json);
  EXPECT_EQ(speeds(after), (std::vector<double>{1, 2, 3}));
}

}  // namespace
}  // namespace tutti::report
