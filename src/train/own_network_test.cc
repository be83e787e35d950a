// A network from a TorchScript file or a plugin takes its user's data, under every strategy, as the built-in
// ones do.
#include <gtest/gtest.h>
#include <torch/script.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "exchange/strategy.h"
#include "train/run_fixture.h"

namespace tutti::train {
namespace {

class OwnNetwork : public ::testing::Test {
 protected:
  OwnNetwork() {
    write_points("points.csv", 400);
    write_net("net.pt", 2);
  }

  void write_points(const std::string& name, int count) const {
    std::ofstream table(folder_.path() / name);
    table << "x,y,noise,side\n";
    for (int i = 0; i < count; ++i) {
      const double angle = i * 2.39996;
      const double distance = 0.2 + (i % 20) / 20.0;
      table << distance * std::cos(angle) << ',' << distance * std::sin(angle) << ',' << std::sin(i * 12.9898)
            << ',' << (distance > 0.7 ? "out" : "in") << '\n';
    }
  }

  void write_net(const std::string& name, int scores) const {
    torch::manual_seed(5);
    torch::jit::Module net("net");
    net.register_parameter("a", torch::randn({16, 2}), false);
    net.register_parameter("b", torch::randn({16}), false);
    net.register_parameter("c", torch::randn({scores, 16}) / 4, false);
    net.register_attribute("training", c10::BoolType::get(), true);
    net.define(R"(
      def forward(self, x):
          h = torch.matmul(x, self.a.t()) + self.b
          h = torch.dropout(torch.relu(h) * torch.sigmoid(h), 0.01, self.training)
          return torch.matmul(h, self.c.t())
    )");
    for (auto p : net.parameters()) p.set_requires_grad(true);
    net.save((folder_.path() / name).string());
  }

  config::TrainConfig config(const std::string& strategy, int workers) const {
    config::TrainConfig c;
    c.model = "script:" + (folder_.path() / "net.pt").string();
    c.data = "csv:" + (folder_.path() / "points.csv").string();
    c.features = "x,y";
    c.strategy = strategy;
    c.workers = workers;
    c.batch = 16 / workers;
    c.epochs = 20;
    c.lr = 0.02;
    c.threads = 1;
    c.out = (folder_.path() / strategy).string();
    return c;
  }
  fixture::Finished run(const config::TrainConfig& c) const {
    const auto prepared = prepare(c, {{folder_.path()}, {}}, 1, "now");
    return fixture::run(prepared.setup);
  }
  void expect_learns_under_every_strategy(const std::function<void(config::TrainConfig&)>& change) const;

  ScratchFolder folder_;
};

void OwnNetwork::expect_learns_under_every_strategy(
    const std::function<void(config::TrainConfig&)>& change) const {
  std::set<std::string> bits_of_synchronous;
  for (const exchange::Strategy& strategy : exchange::all_strategies()) {
    auto c = config(strategy.name, strategy.one_worker_only ? 1 : 2);
    change(c);
    const auto s = run(c).summary;
    EXPECT_GT(s["test_accuracy"], 0.9) << strategy.name;
    for (const std::string replica : s["replicas_sha256"]) {
      EXPECT_EQ(replica, s["replicas_sha256"][0]) << strategy.name;
    }
    const bool differs = strategy.one_worker_only || strategy.asynchronous || strategy.replicas_differ;
    if (!differs && !strategy.shares_memory) bits_of_synchronous.insert(s["parameters_sha256"]);
  }
  EXPECT_EQ(bits_of_synchronous.size(), 1u) << "two workers' gradients add up to the same in any order";
}

TEST_F(OwnNetwork, LearnsUnderEveryStrategyToTheSameReplicas) {
  expect_learns_under_every_strategy([](config::TrainConfig&) {});
}

TEST_F(OwnNetwork, OfAPluginLearnsUnderEveryStrategyToTheSameReplicas) {
  write_points("more.csv", 1600);
  expect_learns_under_every_strategy([this](config::TrainConfig& c) {
    c.model = std::string("plugin:") + TUTTI_TEST_PLUGIN;
    c.features.clear();  // it takes all three, and so needs more samples
    c.data = "csv:" + (folder_.path() / "more.csv").string();
    c.lr = 0.01;
  });
}

TEST_F(OwnNetwork, LearnsOneNumberByTheOtherLosses) {
  write_net("one.pt", 1);
  auto c = config("ring", 2);
  c.model = "script:" + (folder_.path() / "one.pt").string();
  c.loss = "bce";
  EXPECT_GT(run(c).summary["test_accuracy"], 0.85);
  c.loss = "mse";
  c.out += "-mse";
  const auto s = run(c).summary;
  EXPECT_LT(s["test_loss"], 0.15) << "the mean alone is off by a quarter";
  EXPECT_EQ(s["replicas_sha256"][0], s["replicas_sha256"][1]);
}

TEST_F(OwnNetwork, GoesOnFromItsCheckpointToTheSameBits) {
  auto c = config("local", 1);
  const auto whole = run(c).summary["parameters_sha256"];
  c.out = (folder_.path() / "half").string();
  c.epochs = 10;
  run(c);
  c.epochs = 20;
  c.resume = c.out;
  const auto s = run(c).summary;
  EXPECT_EQ(s["parameters_sha256"], whole);
  EXPECT_EQ(s["model_sha256"].get<std::string>().size(), 64U);

  write_net("net.pt", 3);
  c.epochs = 30;
  try {
    run(c);
    FAIL() << "another network lies under the same path";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("that run's network is not what is now in script:"),
              std::string::npos)
        << e.what();
  }
}

TEST_F(OwnNetwork, ReproducibleRunsEndWithTheSameBitsAtEveryNumberOfWorkers) {
  std::set<std::string> bits;
  for (const auto& [strategy, workers] : {std::pair{"local", 1}, {"ring", 3}, {"ps-sync", 8}}) {
    auto c = config(strategy, workers);
    c.reproducible = true;
    c.global_batch = 40;
    c.epochs = 3;
    bits.insert(run(c).summary["parameters_sha256"]);
  }
  EXPECT_EQ(bits.size(), 1u);
}

TEST_F(OwnNetwork, IsJudgedByTheLossThatIsAskedFor) {
  auto c = config("local", 1);
  c.loss = "mse";
  try {
    run(c);
    FAIL() << "two scores were taken for one number";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("scores of shape [16, 2] for 16 samples"), std::string::npos)
        << e.what();
  }
  c.loss = "hinge";
  EXPECT_THROW(run(c), ConfigError);
}

TEST_F(OwnNetwork, RefusesDataThatIsMadeUpAndFilesThatAreNone) {
  auto c = config("local", 1);
  c.data = "synthetic";
  EXPECT_THROW(run(c), ConfigError);
  c = config("local", 1);
  c.model = "script:" + (folder_.path() / "points.csv").string();
  EXPECT_THROW(run(c), DataError);
}

}  // namespace
}  // namespace tutti::train
