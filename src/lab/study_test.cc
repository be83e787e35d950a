#include "lab/study.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "lab/studies_fixture.h"

namespace tutti::lab {
namespace {

TEST(Study, IsFoundByNameAndAnotherIsRefusedWithThoseThatThereAre) {
  for (const Study& s : all_studies()) EXPECT_EQ(&find_study(s.name), &s);
  try {
    find_study("nonsense");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("cloud-architectures"), std::string::npos) << e.what();
  }
}

TEST(Study, EveryRunOfAPlanHasAFolderOfItsOwnAndQuickIsLess) {
  for (const Study& s : all_studies()) {
    for (const Scale scale : {Scale::quick, Scale::full}) {
      std::set<std::string> folders;
      std::size_t runs = 0;
      for (const auto& run : s.plan(scale, "o")) {
        config::validate(run.config);
        EXPECT_EQ(run.cell.strategy, run.config.strategy);
        for (const auto& repeat : run.cell.repeats) {
          folders.insert(repeat.folder);
          ++runs;
        }
      }
      EXPECT_EQ(folders.size(), runs) << s.name;
    }
    EXPECT_LE(s.plan(Scale::quick, "o").size(), s.plan(Scale::full, "o").size()) << s.name;
  }
}

// What has failed is not measured, and nothing throws.
TEST(Study, ConcludesNothingFromNothing) {
  for (const Study& s : all_studies()) {
    std::vector<Cell> cells;
    for (const auto& run : s.plan(Scale::quick, "o")) cells.push_back(run.cell);
    const auto outcome = s.conclude({cells, nlohmann::json::array()});
    EXPECT_FALSE(outcome.claims.empty()) << s.name;
    for (const auto& claim : outcome.claims) EXPECT_FALSE(claim.holds) << s.name << ": " << claim.text;
  }
}

TEST(Study, ACellInDoubtIsLeftOut) {
  auto cells = std::vector{fixture::run_of({.strategy = "ring"})};
  EXPECT_NE(find_cell(cells, {"net", "ring", 1}), nullptr);
  EXPECT_EQ(find_cell(cells, {"net", "ring", 2}), nullptr);
  cells[0].doubt = "its replicas differ";
  EXPECT_EQ(find_cell(cells, {"net", "ring", 1}), nullptr);
}

TEST(CloudArchitectures, ConfirmsWhatScalesAsTheySayAndRefutesWhatDoesNot) {
  const auto& study = find_study("cloud-architectures");
  std::vector<Cell> cells;
  const double model = 100e6;
  for (const int n : {1, 2, 4}) {
    // A ring that hides its exchange, and a server whose link is full.
    cells.push_back(fixture::emulated("ring", n, 0, model, 1000));
    cells.push_back(fixture::emulated("ps-sync", n, 1, model, 1000 * n));
  }
  auto claims = study.conclude({cells, {}}).claims;
  ASSERT_EQ(claims.size(), 6U);
  for (const auto& claim : claims) EXPECT_EQ(claim.holds, true) << claim.text << ": " << claim.ours;

  for (auto& cell : cells) {
    if (cell.workers < 4) continue;
    // A ring that waits, sends too much, and has more on its links than was foretold; a server that scales.
    cell.summary["step_ms"]["median"] = cell.strategy == "ring" ? 4000 : 1000;
    cell.summary["bytes_sent_per_worker"] = cell.summary["bytes_sent_per_worker"].get<double>() * 1.04;
    for (auto& host : cell.summary["emulated"]["per_host"]) {
      host["bytes_sent"] = host["bytes_sent"].get<double>() * 1.2;
    }
  }
  claims = study.conclude({cells, {}}).claims;
  for (const auto& claim : claims) EXPECT_EQ(claim.holds, false) << claim.text << ": " << claim.ours;
}

TEST(ParallaxLm, HoldsHybridAgainstTheOthers) {
  const auto& study = find_study("parallax-lm");
  const auto at = [](const char* model, const char* strategy, const char* variant, double step_ms) {
    auto cell = fixture::run_of({.model = model, .strategy = strategy, .workers = 4, .step_ms = step_ms});
    cell.variant = variant;
    cell.summary["words_per_second"] = 20 * cell.summary["samples_per_second"].get<double>();
    return cell;
  };
  const auto judge = [&](double allreduce, double servers, double dense) {
    const auto outcome =
        study.conclude({{at("lstm-lm", "hybrid", "", 100), at("lstm-lm", "allreduce", "", allreduce),
                         at("lstm-lm", "ps-sync", "whole tables", servers), at("resnet50", "hybrid", "", 100),
                         at("resnet50", "allreduce", "", dense)},
                        {}});
    std::vector<bool> held;
    for (const auto& claim : outcome.claims) held.push_back(claim.holds.value());
    return held;
  };
  EXPECT_EQ(judge(610, 210, 101), (std::vector{true, true, true}));
  EXPECT_EQ(judge(590, 190, 90), (std::vector{false, false, false}));
}

}  // namespace
}  // namespace tutti::lab
