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
    // A ring that waits, sends too much, and has more on its links than was predicted; a server that scales.
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

std::vector<std::optional<bool>> held(const char* study, const Evidence& evidence) {
  std::vector<std::optional<bool>> all;
  for (const auto& claim : find_study(study).conclude(evidence).claims) all.push_back(claim.holds);
  return all;
}

TEST(MpiMnist, HoldsEightProcessesAgainstOne) {
  const auto judge = [](double accuracy, double two_ms, double exchange_ms) {
    const auto at = [&](const char* strategy, int n, double step_ms, double learned) {
      auto cell = fixture::run_of({.model = "mnist-cnn",
                                   .strategy = strategy,
                                   .workers = n,
                                   .step_ms = step_ms,
                                   .accuracy = learned});
      cell.summary["exchange_ms"] = std::string(strategy) == "allreduce" ? exchange_ms : 1.0;
      return cell;
    };
    return held("mpi-mnist", {{at("local", 1, 10, 0.99), at("reduce-broadcast", 2, two_ms, 0.99),
                               at("allreduce", 2, two_ms, 0.99), at("reduce-broadcast", 8, 20, 0.99),
                               at("allreduce", 8, 20, accuracy)},
                              {}});
  };
  const std::optional<bool> not_measured;
  EXPECT_EQ(judge(0.988, 11, 0.5), (std::vector<std::optional<bool>>{true, true, true, not_measured}));
  EXPECT_EQ(judge(0.986, 12, 1.5), (std::vector<std::optional<bool>>{false, false, false, not_measured}));
}

TEST(MpiMnist, SameBitsAreOneHashAtEveryNumberOfProcesses) {
  const auto judge = [](const char* with_eight, int without = 0) {
    Evidence evidence;
    for (const auto& run : find_study("mpi-mnist").plan(Scale::quick, "o")) {
      if (run.cell.variant != "same bits" || run.cell.workers == without) continue;
      auto cell = fixture::run_of(
          {.model = run.cell.model, .strategy = run.cell.strategy, .workers = run.cell.workers});
      cell.variant = run.cell.variant;
      cell.summary["parameters_sha256"] = cell.workers == 8 ? with_eight : "a";
      evidence.cells.push_back(std::move(cell));
    }
    EXPECT_EQ(evidence.cells.size(), without == 0 ? 4U : 3U);
    return find_study("mpi-mnist").conclude(evidence).claims.back().holds;
  };
  EXPECT_EQ(judge("a"), true);
  EXPECT_EQ(judge("b"), false);
  EXPECT_EQ(judge("a", 4), std::nullopt) << "not measured with one of them missing";
}

TEST(DeepFam, ComparesCheckpointsToTheBit) {
  const auto at = [](const char* strategy, int workers, const char* begin, const char* end) {
    auto cell = fixture::run_of({.model = "deepfam", .strategy = strategy, .workers = workers});
    cell.summary["initial_parameters_sha256"] = begin;
    cell.summary["parameters_sha256"] = end;
    cell.summary["checkpoints"] = {{{"step", 100}, {"model_sha256", "m"}},
                                   {{"step", 200}, {"model_sha256", end}}};
    return cell;
  };
  EXPECT_EQ(held("deepfam",
                 {{at("local", 1, "a", "y"), at("ps-sync", 2, "a", "y"), at("allreduce", 2, "a", "y"),
                   at("hybrid", 2, "a", "y"), at("reduce-broadcast", 2, "a", "y"), at("ring", 3, "a", "y")},
                  {}}),
            (std::vector<std::optional<bool>>{true, true, true, true}));
  const std::optional<bool> not_measured;
  EXPECT_EQ(
      held("deepfam", {{at("local", 1, "a", "y"), at("ps-sync", 2, "a", "y"), at("allreduce", 2, "a", "y"),
                        at("hybrid", 2, "a", "y"), at("reduce-broadcast", 2, "a", "y")},
                       {}}),
      (std::vector<std::optional<bool>>{not_measured, true, true, not_measured}))
      << "all means all";
  const Evidence apart{
      {at("local", 1, "a", "x"), at("ps-sync", 2, "b", "y"), at("allreduce", 2, "a", "z"),
       at("hybrid", 2, "a", "w"), at("reduce-broadcast", 2, "a", "x"), at("ring", 3, "a", "x")},
      {{{"first", 1},
        {"second", 2},
        {"identical", false},
        {"elements", 9},
        {"differing", 3},
        {"max_ulps", 7}}}};
  const auto claims = find_study("deepfam").conclude(apart).claims;
  for (const auto& claim : claims) EXPECT_EQ(claim.holds, false) << claim.text;
  EXPECT_EQ(claims[2].ours, "3 of 9 values differ, by at most 7 ULPs");
  EXPECT_EQ(claims[3].ours, "6 runs: after 100 steps one digest, after 200 steps several");
}

TEST(Rnn, LooksAtBitsAndAtWhatWasLearnedByTheSameStep) {
  const auto judge = [](double hybrid, const char* second_run, double gan) {
    Evidence evidence;
    for (const auto& run : find_study("rnn").plan(Scale::quick, "o")) {
      auto cell = fixture::run_of({.model = run.cell.model,
                                   .strategy = run.cell.strategy,
                                   .workers = run.cell.workers,
                                   .accuracy = run.cell.model == "gan-mnist" ? gan : 0.7});
      cell.summary["evaluations"] = {{{"step", 50}, {"accuracy", cell.strategy == "hybrid" ? hybrid : 0.4}}};
      cell.repeats = {{"one", cell.summary}, {"two", cell.summary}};
      cell.repeats[1].summary["parameters_sha256"] = second_run;
      evidence.cells.push_back(std::move(cell));
    }
    return held("rnn", evidence);
  };
  EXPECT_EQ(judge(0.89, "a", 0.9), (std::vector<std::optional<bool>>{true, true, true}));
  EXPECT_EQ(judge(0.4, "b", 0.4), (std::vector<std::optional<bool>>{false, false, false}));
}

TEST(HorovodRay, AsksForMoreThanTheirAccuracy) {
  const auto judge = [](double accuracy, double two_ms) {
    Evidence evidence;
    for (const auto& run : find_study("horovod-ray").plan(Scale::quick, "o")) {
      auto cell = fixture::run_of({.model = run.cell.model,
                                   .strategy = run.cell.strategy,
                                   .workers = run.cell.workers,
                                   .accuracy = accuracy});
      cell.summary["steps_per_second"] = run.cell.workers == 1 ? 10.0 : 1000 / two_ms;
      evidence.cells.push_back(std::move(cell));
    }
    return held("horovod-ray", evidence);
  };
  EXPECT_EQ(judge(0.95, 101), (std::vector<std::optional<bool>>{true, true, true, true}));
  EXPECT_EQ(judge(0.70, 99), (std::vector<std::optional<bool>>{false, false, false, false}));
}

}  // namespace
}  // namespace tutti::lab
