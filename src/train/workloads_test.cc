// Every network of the studies, small, under the strategies that people argue about: it trains, and its
// replicas end equal.
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

#include "base/scratch_folder.h"
#include "data/bars_fixture.h"
#include "models/model.h"
#include "train/run_fixture.h"

namespace tutti::train {
namespace {

struct Workload {
  std::string model;
  std::string data = "synthetic";
  std::int64_t image_size = 0;
  std::int64_t batch = 32;
  double lr = 0.001;
};

void PrintTo(const Workload& workload, std::ostream* out) {
  *out << workload.model;
}

constexpr std::int64_t kSteps = 20;

class Workloads : public ::testing::TestWithParam<Workload> {
 protected:
  Workloads() { data::fixture::write_bars(folder_.path() / "data", "mnist", 2000, 100); }

  config::TrainConfig config(const std::string& strategy, int workers) const {
    const Workload& w = GetParam();
    config::TrainConfig c;
    c.model = w.model;
    c.data = w.data;
    c.strategy = strategy;
    c.workers = workers;
    c.batch = w.batch;
    c.steps = kSteps;
    c.lr = w.lr;
    c.threads = 1;
    c.no_evaluate = true;
    c.image_size = w.image_size;
    const auto& own = models::find_model(w.model).own;
    if (own.classes > 0 && w.data == "synthetic") c.classes = 2;
    if (own.vocabulary > 0) {
      c.vocabulary = 500;
      c.embedding = 16;
      c.hidden = 32;
      c.unroll = 20;
      c.sampled = 200;
    }
    c.out = (folder_.path() / strategy).string();
    return c;
  }

  fixture::Finished run(const config::TrainConfig& c) const {
    return fixture::run(prepare(c, {{folder_.path() / "data"}, {}}, 1, "now").setup);
  }

  void expect_to_learn(const config::TrainConfig& c) const {
    const auto done = run(c);
    std::vector<double> losses;
    for (const auto& step : done.events.of<observe::StepDone>()) losses.push_back(step.loss);
    ASSERT_EQ(losses.size(), static_cast<std::size_t>(kSteps));
    const auto mean_of_five = [&](auto first) { return std::accumulate(first, first + 5, 0.0) / 5; };
    EXPECT_LT(mean_of_five(losses.end() - 5), mean_of_five(losses.begin())) << c.strategy;
    expect_equal_replicas(done.summary);
  }

  static void expect_equal_replicas(const nlohmann::json& summary) {
    ASSERT_EQ(summary.at("replicas_sha256").size(), summary.at("workers"));
    for (const auto& r : summary.at("replicas_sha256")) EXPECT_EQ(r, summary.at("parameters_sha256"));
    EXPECT_NE(summary.at("parameters_sha256"), summary.at("initial_parameters_sha256"));
  }

 private:
  ScratchFolder folder_;
};

TEST_P(Workloads, LearnsAlone) {
  expect_to_learn(config("local", 1));
}

// A sum of two has the same bits wherever it is formed, also of every layer, phase and statistic of these.
TEST_P(Workloads, TwoWorkersEndWithTheSameBitsByAllReduceAndWithServers) {
  std::vector<nlohmann::json> summaries;
  for (const char* strategy : {"allreduce", "ps-sync"}) {
    auto c = config(strategy, 2);
    c.steps = 3;
    c.no_sparse = c.strategy == "ps-sync";
    summaries.push_back(run(c).summary);
    expect_equal_replicas(summaries.back());
  }
  EXPECT_EQ(summaries[0]["parameters_sha256"], summaries[1]["parameters_sha256"]);
}

class SparseWorkloads : public Workloads {};

TEST_P(SparseWorkloads, LearnWithRowsToServers) {
  expect_to_learn(config("ps-sync", 2));
}

TEST_P(SparseWorkloads, LearnWithRowsToServersAndTheRestByAllReduce) {
  expect_to_learn(config("hybrid", 2));
}

std::string name_of(const ::testing::TestParamInfo<Workload>& p) {
  std::string name = p.param.model;
  std::erase(name, '-');
  return name;
}

const Workload kWideDeep{.model = "wide-deep", .batch = 256, .lr = 0.01};
const Workload kLanguage{.model = "lstm-lm", .batch = 64, .lr = 0.01};

INSTANTIATE_TEST_SUITE_P(All, SparseWorkloads, ::testing::Values(kWideDeep, kLanguage), name_of);
INSTANTIATE_TEST_SUITE_P(
    All, Workloads,
    ::testing::Values(kWideDeep, kLanguage, Workload{.model = "mnist-cnn", .data = "mnist", .lr = 0.002},
                      Workload{.model = "rnn-mnist", .batch = 64, .lr = 0.01},
                      Workload{.model = "sdss-dnn", .batch = 64, .lr = 0.01},
                      Workload{.model = "gan-mnist", .data = "mnist", .batch = 64},
                      Workload{.model = "deepfam", .batch = 8},
                      Workload{.model = "alexnet-cifar", .image_size = 16, .batch = 64, .lr = 0.0003},
                      Workload{.model = "vgg16-cifar", .batch = 8},
                      Workload{.model = "resnet50-cifar", .image_size = 16, .batch = 8},
                      Workload{.model = "mobilenetv2-cifar", .image_size = 16},
                      Workload{.model = "resnet50", .image_size = 33, .batch = 12},
                      Workload{.model = "mobilenetv2", .image_size = 32, .batch = 64}),
    name_of);

}  // namespace
}  // namespace tutti::train
