#include "report/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/scratch_folder.h"
#include "observe/event.h"
#include "report/cells_fixture.h"
#include "report/study.h"

namespace tutti::report {
namespace {

namespace fs = std::filesystem;

// What stands between the data block's tags, as a browser sees it.
std::string data_block(const std::string& page) {
  const std::string open = R"(<script id="data" type="application/json">)";
  const auto begin = page.find(open) + open.size();
  return page.substr(begin, page.find("</script", begin) - begin);
}

class Page : public ::testing::Test {
 protected:
  const fs::path& folder() const { return folder_.path(); }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    write_file_atomically(path, text);
  }
  // A comparison of two runs, and their folders.
  void write_comparison() {
    const std::vector<Cell> cells = {fixture::cell("ring", 2, 200, 1), fixture::cell("ps-sync", 2, 100, 9)};
    for (const Cell& c : cells) write(folder() / c.folder / "summary.json", c.summary.dump());
    write(folder() / "compare.json", nlohmann::json(cells).dump());
  }

 private:
  ScratchFolder folder_;
};

TEST_F(Page, NothingInTheDataEndsItsBlock) {
  const nlohmann::json nasty = {{"name", "</script><script>alert(1)</script><!--<script>"},
                                {"bytes", "\xff\xfe"},
                                {"text", R"(a & 'b' "c")"}};
  const auto page = render_page(nasty);
  const auto back = nlohmann::json::parse(data_block(page));
  EXPECT_EQ(back["name"], nasty["name"]);
  EXPECT_EQ(back["text"], nasty["text"]);
  EXPECT_EQ(data_block(page).find('<'), std::string::npos);
}

TEST_F(Page, AsksNothingOfTheNetwork) {
  const auto page = render_page({{"cells", nlohmann::json::array()}});
  for (const char* word : {R"(src=")", "src='", "<link", "@import", "fetch("}) {
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  }
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
}

TEST_F(Page, AComparisonHasItsVerdictAndWhatTheRunsHaveLeft) {
  write_comparison();
  const auto step = [](double loss) {
    return observe::to_json(
               observe::StepDone{
                   .loss = loss, .step_ms = 10, .compute_ms = 6, .exchange_ms = 5, .exposed_exchange_ms = 3})
               .dump() +
           "\n";
  };
  write(folder() / "ring-2" / "metrics.jsonl", step(2) + step(1) + R"({"event":"st)");
  write(folder() / "ring-2" / "samples-rank-0.jsonl",
        R"({"rank":0,"role":"worker","cores":1,"network":7}
{"time":10.0,"cpu_seconds":1.0,"resident_bytes":5,"interfaces":{}}
{"time":10.5,"cpu_seconds":1.5,"resident_bytes":6,"interfaces":{"lo":{"tx_bytes":9}},"gpus":[{"utilisation":0.5,"memory_bytes":7}]}
)");
  const auto data = page_data(folder(), {});
  EXPECT_EQ(data["kind"], "comparison");
  EXPECT_NE(data["verdict"].get<std::string>().find("ring: 2.00 times"), std::string::npos);
  const auto& ring = data["cells"][0];
  EXPECT_EQ(ring["metrics"]["damaged_lines"], 1);
  EXPECT_EQ(ring["metrics"]["steps"]["loss"], (std::vector<double>{2, 1}));
  EXPECT_DOUBLE_EQ(ring["metrics"]["anatomy"]["compute"], 6);
  EXPECT_DOUBLE_EQ(ring["metrics"]["anatomy"]["hidden"], 2);
  EXPECT_DOUBLE_EQ(ring["metrics"]["anatomy"]["waiting"], 1);
  EXPECT_EQ(ring["nodes"][0]["seconds"], (std::vector<double>{0, 0.5}));
  EXPECT_EQ(ring["nodes"][0]["interfaces"]["lo"]["tx_bytes"], nlohmann::json::parse("[null,9]"));
  EXPECT_EQ(ring["nodes"][0]["gpus"][0]["utilisation"], nlohmann::json::parse("[null,0.5]"));
  EXPECT_TRUE(data["cells"][1]["metrics"].is_null());
  EXPECT_TRUE(data["differences"][0]["identical"]);
}

TEST_F(Page, ALongCurveIsThinnedToItsMeans) {
  write(folder() / "summary.json", fixture::summary(1).dump());
  std::string lines;
  for (int i = 1; i <= 4000; ++i) {
    lines += observe::to_json(observe::StepDone{.step = i, .loss = static_cast<double>(i % 2), .step_ms = 1})
                 .dump() +
             "\n";
  }
  write(folder() / "metrics.jsonl", lines);
  const auto data = page_data(folder(), {});
  const auto& steps = data["cells"][0]["metrics"]["steps"];
  ASSERT_EQ(steps["step"].size(), 400U);
  EXPECT_EQ(steps["step"].back(), 4000);
  EXPECT_DOUBLE_EQ(steps["loss"][7], 0.5);
  EXPECT_NEAR(steps["seconds"].back(), 4, 1e-9);
}

TEST_F(Page, RoundsAreThoseOfTheCollective) {
  auto summary = fixture::summary(1);
  summary["workers"] = 3;
  summary["collectives"] = {{{"operation", "all-reduce"}, {"algorithm", "ring"}, {"bytes", 12}},
                            {{"operation", "conjuring"}, {"algorithm", "ring"}, {"bytes", 12}}};
  write(folder() / "summary.json", summary.dump());
  const auto schedules = page_data(folder(), {})["cells"][0]["schedules"];
  ASSERT_EQ(schedules[0]["rounds"].size(), 4U);  // 2 (N - 1)
  for (const auto& round : schedules[0]["rounds"]) EXPECT_EQ(round.size(), 3U);
  EXPECT_FALSE(schedules[1].contains("rounds"));
}

TEST_F(Page, AStudyIsShownFromItsFolder) {
  write_comparison();
  EXPECT_FALSE(page_data(folder(), {}).contains("study"));
  StudyResult outcome{.study = "made-up", .title = "A study", .claims = {{"it is so", "", "", true}}};
  write(folder() / "study.json", nlohmann::json(outcome).dump());
  EXPECT_EQ(page_data(folder(), {})["study"]["claims"][0]["holds"], true);
  for (const char* text : {"{", "{}", R"({"study":1})"}) {
    write(folder() / "study.json", text);
    EXPECT_THROW(write_page(folder(), {}), DataError) << text;
  }
}

TEST_F(Page, ManyRunsShowFewerSamplesOfEach) {
  std::vector<Cell> cells;
  std::string lines = R"({"rank":0,"role":"worker","cores":1,"network":7})"
                      "\n";
  for (int i = 0; i < 1000; ++i)
    lines += fmt::format(R"({{"time":{},"cpu_seconds":1.0,"resident_bytes":5,"interfaces":{{}}}})", i) + "\n";
  for (int n = 1; n <= 50; ++n) {
    cells.push_back(fixture::cell("ring", n, 1));
    write(folder() / cells.back().folder / "summary.json", cells.back().summary.dump());
  }
  write(folder() / "ring-1" / "samples-rank-0.jsonl", lines);
  write(folder() / "compare.json", nlohmann::json(cells).dump());
  EXPECT_EQ(page_data(folder(), {})["cells"][0]["nodes"][0]["seconds"].size(),
            77U);  // every 13th: at most 80
}

TEST_F(Page, ADamagedCellIsShownAsSuch) {
  write_comparison();
  write(folder() / "ps-sync-2" / "summary.json", R"({"strategy":)");
  fs::remove(folder() / "ring-2" / "summary.json");
  const auto data = page_data(folder(), {});
  for (const auto& cell : data["cells"]) {
    EXPECT_TRUE(cell["summary"].is_null());
    EXPECT_TRUE(cell["failure"].get<std::string>().starts_with("damaged: ")) << cell["failure"];
  }
}

TEST_F(Page, ACellSaysWhetherItsStrategyIsForOneWorker) {
  write_comparison();
  const auto data = page_data(folder(), {"local", "ring"});
  EXPECT_EQ(data["cells"][0]["one_worker_only"], true);
  EXPECT_EQ(data["cells"][1]["one_worker_only"], false);
}

TEST_F(Page, AnotherFolderIsRefused) {
  EXPECT_THROW(write_page(folder(), {}), DataError);
  EXPECT_THROW(write_page(folder() / "nowhere", {}), DataError);
  for (const char* text : {"", "{", "{}", "[]", "[1]", R"([{"strategy":1}])"}) {
    write(folder() / "compare.json", text);
    EXPECT_THROW(write_page(folder(), {}), DataError) << text;
  }
  EXPECT_FALSE(fs::exists(folder() / "report.html"));
}

TEST_F(Page, IsWrittenWhereTheRunIs) {
  write(folder() / "summary.json", fixture::summary(1).dump());
  EXPECT_EQ(write_page(folder(), {}), folder() / "report.html");
  EXPECT_EQ(nlohmann::json::parse(data_block(read_file(folder() / "report.html")))["kind"], "run");
}

}  // namespace
}  // namespace tutti::report
