#include "report/study.h"

#include <gtest/gtest.h>

namespace tutti::report {
namespace {

StudyResult outcome() {
  return {
      .study = "made-up",
      .title = "A study",
      .ran = "nothing",
      .quick = true,
      .claims = {{"it is so", "2 times", "1.9 times", true},
                 {"and so", "", "", false},
                 {"or so", "", "", {}}},
      .tables = {{"Speeds", {"model", "theirs", "ours"}, {{"net", nullptr, 12.345}, {"deep", 7, "fast"}}}},
      .charts = {{"Speed-up", "workers", "times", {{"ring", {{1, 1}, {2, 1.9}}, true}}}}};
}

TEST(Study, SurvivesTheWayThroughJson) {
  const nlohmann::json json = outcome();
  EXPECT_EQ(nlohmann::json(json.get<StudyResult>()), json);
  EXPECT_TRUE(json["claims"][2]["holds"].is_null());
  auto damaged = json;
  damaged["claims"][0].erase("holds");
  EXPECT_THROW((void)damaged.get<StudyResult>(), nlohmann::json::exception);
}

TEST(Study, IsSaidInPlainText) {
  const auto text = render(outcome());
  for (const char* part :
       {"A study (quick", "confirmed      it is so", "they: 2 times", "ours: 1.9 times",
        "not confirmed  and so", "not measured   or so", "net         -  12.35", "deep        7   fast"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace tutti::report
