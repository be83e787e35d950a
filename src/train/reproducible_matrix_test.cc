// With --reproducible every strategy that keeps step ends with the same bits, at every number of workers.
#include <gtest/gtest.h>

#include <cstdlib>

#include "collectives/algorithms.h"
#include "train/reproducible_fixture.h"

namespace tutti::train {
namespace {

using fixture::expect_routes_to_servers;
using fixture::ReproducibleRun;
using fixture::text_of;
using fixture::TrainingWay;
using fixture::Trial;
using fixture::TrialCase;

std::vector<TrainingWay> all_ways() {
  std::vector<TrainingWay> ways;
  for (const int workers : {1, 2, 3, 4, 5, 8}) {
    ways.push_back({"ring", workers});
    ways.push_back({"reduce-broadcast", workers});
    ways.push_back({"ps-sync", workers, 1});
    ways.push_back({"ps-sync", workers, 2});
    ways.push_back({"hybrid", workers, 1});
    for (const auto& algorithm : collectives::algorithms()) {
      // Of those that one host has.
      if (algorithm.runs == collectives::AlgorithmInfo::Runs::across_hosts) continue;
      ways.push_back({"allreduce", workers, 0, std::string(algorithm.name)});
    }
  }
  return ways;
}

const std::vector<TrialCase>& all_cases() {
  static const std::vector<TrialCase> cases = [] {
    const std::vector<Trial> workloads = {{"dropout", "mnist-cnn"},
                                          {"batch_norm", "mobilenetv2-cifar", "synthetic", true, 8, 32},
                                          {"recurrent", "rnn-mnist"},
                                          {"deepfam", "deepfam", "gpcr", true},
                                          {"sparse", "lstm-lm", "synthetic", false, 16, 0, 0.1}};
    std::vector<TrialCase> all;
    for (const auto& workload : workloads) {
      for (const char* optimizer : {"sgd", "adam"}) all.push_back({workload, optimizer});
    }
    return all;
  }();
  return cases;
}

// Every way with every workload and optimizer takes long: workloads that compute little take the ways in
// turn, and the others one of them. TUTTI_MATRIX=all tries everything, TUTTI_MATRIX=3 what has three workers.
bool is_tried(std::size_t case_index, const std::vector<TrainingWay>& ways, std::size_t index) {
  const int workers = ways[index].workers;
  if (const char* const asked = std::getenv("TUTTI_MATRIX")) {
    return std::string_view(asked) == "all" || asked == std::to_string(workers);
  }
  // As many for each number of workers, one number after another.
  const auto alike = static_cast<std::size_t>(std::ranges::count(ways, workers, &TrainingWay::workers));
  if (all_cases()[case_index].workload.computes_much) {
    return workers == 3 && index % alike == case_index % alike;
  }
  // A sixth of them at each number of workers, other ones at each.
  return (index + index / alike) % 6 == case_index % 6;
}

class Reproducible : public ReproducibleRun, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(Reproducible, EveryWayEndsWithTheSameBits) {
  const TrialCase& c = all_cases()[GetParam()];
  const auto alone = run(config(c, {"local"}));
  EXPECT_EQ(alone["reproducible"], true);
  const std::string expected = alone["parameters_sha256"];
  EXPECT_NE(expected, alone.at("initial_parameters_sha256").get<std::string>());
  const auto ways = all_ways();
  int tried = 0;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (!is_tried(GetParam(), ways, i)) continue;
    ++tried;
    const auto summary = run(config(c, ways[i]));
    EXPECT_EQ(summary["parameters_sha256"], expected) << text_of(ways[i]);
    for (const auto& replica : summary["replicas_sha256"]) EXPECT_EQ(replica, expected) << text_of(ways[i]);
    EXPECT_EQ(summary["train_loss"], alone["train_loss"]) << text_of(ways[i]);
    const bool by_rows = c.workload.name == "sparse" && c.optimizer == "sgd" && ways[i].workers > 1;
    if (by_rows && ways[i].strategy == "hybrid") expect_routes_to_servers(summary);
  }
  EXPECT_GT(tried, 0) << "TUTTI_MATRIX is \"all\" or one of the numbers of workers";
}

INSTANTIATE_TEST_SUITE_P(Matrix, Reproducible, ::testing::Range<std::size_t>(0, 10), [](const auto& at) {
  const TrialCase& c = all_cases()[at.param];
  return c.workload.name + "_" + c.optimizer;
});

}  // namespace
}  // namespace tutti::train
