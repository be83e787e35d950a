// Every network of the studies, small, under the strategies that people argue about: it trains, and its
// replicas end equal.
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

#include "base/scratch_folder.h"
#include "data/bars_fixture.h"
#include "models/model.h"
#include "net/inproc.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace tutti::train {
namespace {

struct Workload {
  std::string model;
  std::string data = "synthetic";
  std::int64_t image_size = 0;
  std::int64_t batch = 32;
  double lr = 0.001;
  bool sparse = false;
};

void PrintTo(const Workload& workload, std::ostream* out) {
  *out << workload.model;
}

// Keeps the losses of rank 0.
struct Losses final : observe::EventSink {
  void emit(const observe::Event& event) override {
    if (const auto* step = std::get_if<observe::StepDone>(&event)) all.push_back(step->loss);
  }
  double mean(std::size_t first, std::size_t last) const {
    return std::accumulate(all.begin() + static_cast<std::ptrdiff_t>(first),
                           all.begin() + static_cast<std::ptrdiff_t>(last), 0.0) /
           static_cast<double>(last - first);
  }
  std::vector<double> all;
};

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

  void expect_to_learn(const config::TrainConfig& c) const {
    const auto prepared = prepare(c, {{folder_.path() / "data"}, {}}, 1, "now");
    make_run_folder(prepared.setup);
    Losses losses;
    nlohmann::json summary;
    const config::TrainConfig& resolved = prepared.setup.config;
    net::run_as_threads(net::Medium::memory, resolved.workers + resolved.servers, std::chrono::seconds(200),
                        [&](net::Transport& t) {
                          if (to_int(t.rank()) >= resolved.workers) return serve(prepared.setup, t);
                          Losses unheard;
                          const bool first = to_int(t.rank()) == 0;
                          const auto s = train(prepared.setup, t, first ? losses : unheard);
                          if (first) summary = s;
                        });
    ASSERT_EQ(losses.all.size(), static_cast<std::size_t>(kSteps));
    EXPECT_LT(losses.mean(kSteps - 5, kSteps), losses.mean(0, 5)) << c.strategy;
    for (const auto& r : summary.at("replicas_sha256")) EXPECT_EQ(r, summary.at("parameters_sha256"));
  }

 private:
  ScratchFolder folder_;
};

TEST_P(Workloads, LearnsAlone) {
  expect_to_learn(config("local", 1));
}

TEST_P(Workloads, LearnsByAllReduce) {
  expect_to_learn(config("allreduce", 2));
}

TEST_P(Workloads, LearnsWithServers) {
  expect_to_learn(config("ps-sync", 2));
}

TEST_P(Workloads, LearnsWithRowsToServersAndTheRestByAllReduce) {
  if (GetParam().sparse) expect_to_learn(config("hybrid", 2));
}

INSTANTIATE_TEST_SUITE_P(
    All, Workloads,
    ::testing::Values(Workload{.model = "mnist-cnn", .data = "mnist", .lr = 0.002},
                      Workload{.model = "wide-deep", .batch = 256, .lr = 0.01, .sparse = true},
                      Workload{.model = "rnn-mnist", .batch = 64, .lr = 0.01},
                      Workload{.model = "sdss-dnn", .batch = 64, .lr = 0.01},
                      Workload{.model = "gan-mnist", .data = "mnist", .batch = 64},
                      Workload{.model = "deepfam", .batch = 8},
                      Workload{.model = "lstm-lm", .batch = 64, .lr = 0.01, .sparse = true},
                      Workload{.model = "alexnet-cifar", .image_size = 16, .batch = 64, .lr = 0.0003},
                      Workload{.model = "vgg16-cifar", .batch = 8},
                      Workload{.model = "resnet50-cifar", .image_size = 16, .batch = 8},
                      Workload{.model = "mobilenetv2-cifar", .image_size = 16},
                      Workload{.model = "resnet50", .image_size = 33, .batch = 12},
                      Workload{.model = "mobilenetv2", .image_size = 32, .batch = 64}),
    [](const auto& p) {
      std::string name = p.param.model;
      std::erase(name, '-');
      return name;
    });

}  // namespace
}  // namespace tutti::train
