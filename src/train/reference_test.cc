// Every strategy against what it is defined to give (train/plain_run.h), by value.
#include <gtest/gtest.h>

#include <cstring>

#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "data/bars_fixture.h"
#include "train/plain_run.h"
#include "train/run_fixture.h"

namespace tutti::train {
namespace {

using plain::Tensors;

struct Case {
  std::string name;
  std::function<void(config::TrainConfig&)> change;
  std::set<std::string> by_rows = {};
  double tolerance = 2e-5;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

plain::Numbers numbers_in(const checkpoint::TensorView& tensor) {
  if (tensor.dtype == DType::i64) {
    std::vector<std::int64_t> all(tensor.bytes.size() / sizeof(std::int64_t));
    std::memcpy(all.data(), tensor.bytes.data(), tensor.bytes.size());
    return {all.begin(), all.end()};
  }
  std::vector<float> all(tensor.bytes.size() / sizeof(float));
  std::memcpy(all.data(), tensor.bytes.data(), tensor.bytes.size());
  return {all.begin(), all.end()};
}

// Every number is where it should be, and every tensor has moved since `before`.
void expect_equal(const checkpoint::SafetensorsFile& saved, const Tensors& expected, double tolerance,
                  const Tensors& before = {}) {
  for (const auto& [name, numbers] : expected) {
    const auto found = numbers_in(saved.at(name));
    ASSERT_EQ(found.size(), numbers.size()) << name;
    double worst = 0;
    double moved = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      worst = std::max(worst, std::abs(found[i] - numbers[i]) / std::max(1.0, std::abs(numbers[i])));
      if (!before.empty()) moved = std::max(moved, std::abs(numbers[i] - before.at(name)[i]));
    }
    EXPECT_LT(worst, tolerance) << name;
    if (!before.empty()) {
      EXPECT_GT(moved, 50 * tolerance) << name << " hardly moves: nothing would be seen";
    }
  }
}

class Reference : public ::testing::TestWithParam<Case> {
 protected:
  // Three steps an epoch, the last one with fewer samples; a worker has several buckets.
  config::TrainConfig config() const {
    config::TrainConfig c;
    c.model = "sdss-dnn";
    c.data = "synthetic";
    c.strategy = "allreduce";
    c.workers = 3;
    c.batch = 3000;
    c.steps = 7;
    c.optimizer = "sgd";
    c.lr = 0.2;
    c.threads = 1;
    c.bucket_bytes = 16 << 10;
    c.out = (folder_.path() / "run").string();
    GetParam().change(c);
    return c;
  }
  ScratchFolder folder_;
};

TEST_P(Reference, EveryStepIsTheDefinedOne) {
  auto c = config();
  c.checkpoint_every = 2;
  c.evaluate_every = 2;
  const auto setup = prepare(c, {}, 1, "now").setup;
  const auto run = fixture::run(setup);
  plain::Run plain(setup, GetParam().by_rows);
  const auto before = plain.parameters();
  const auto told = run.events.of<observe::Evaluated>();
  const auto rates = run.events.of<observe::StepDone>();
  const bool replicas_differ = c.strategy == "local-sgd" || c.strategy == "easgd";
  ASSERT_EQ(told.size(), 4U);
  ASSERT_EQ(rates.size(), 7U);
  while (plain.steps() < c.steps) {
    EXPECT_NEAR(rates[static_cast<std::size_t>(plain.steps())].lr, plain.rate(), 1e-9 * plain.rate());
    plain.step();
    const bool last = plain.steps() == c.steps;
    if (last) plain.end();
    if (!last && plain.steps() % 2 != 0) continue;
    SCOPED_TRACE(fmt::format("step {}", plain.steps()));
    const auto saved = checkpoint::load(checkpoint::step_folder(c.out, plain.steps()));
    expect_equal(saved.model, plain.parameters(), GetParam().tolerance, last ? before : Tensors());
    expect_equal(*saved.optimizer, plain.state(), GetParam().tolerance);
    const auto& evaluated = told[static_cast<std::size_t>((plain.steps() - 1) / 2)];
    EXPECT_EQ(evaluated.step, plain.steps());
    EXPECT_EQ(evaluated.samples, 2000);
    EXPECT_NEAR(evaluated.figures.at("loss"), plain.test_loss(), 2e-4)
        << (replicas_differ ? "of rank 0" : "");
  }
}

Case with(const std::string& name, const std::function<void(config::TrainConfig&)>& change,
          std::set<std::string> by_rows = {}) {
  return {name, change, std::move(by_rows)};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // Every way to move gradients, with an optimizer whose state and decay show where it is kept.
  for (const char* strategy : {"ring", "allreduce", "reduce-broadcast", "hybrid", "ps-sync"}) {
    std::string name = strategy;
    std::erase(name, '-');
    all.push_back(with(name + "Adam", [=](auto& c) {
      c.strategy = strategy;
      c.optimizer = "adam";
      c.lr = 0.01;
      c.weight_decay = 0.1;
    }));
    all.push_back(with(name + "ClippedNesterov", [=](auto& c) {
      c.strategy = strategy;
      c.optimizer = "nesterov";
      c.clip_norm = 0.05;
      c.weight_decay = 0.01;
    }));
  }
  for (const char* role : {"update", "sum"}) {
    for (const int servers : {1, 2}) {
      all.push_back(with(fmt::format("servers{}{}", role, servers), [=](auto& c) {
        c.strategy = "ps-sync";
        c.servers = servers;
        c.server_role = role;
        c.optimizer = "adamw";
        c.lr = 0.02;
        c.weight_decay = 0.1;
      }));
    }
  }
  all.push_back(with("serversOfOneHost", [](auto& c) {
    c.strategy = "ps-sync";
    c.local_aggregation = true;
    c.optimizer = "momentum";
  }));
  // 20,000 = 3 x 3 x 2,222 + 2: in every fourth step two workers have a sample and the third has none.
  all.push_back(with("fewerSamplesThanWorkers", [](auto& c) {
    c.batch = 2222;
    c.optimizer = "momentum";
  }));
  // One worker that nobody disturbs makes plain steps, whatever the rule of consistency.
  for (const char* strategy : {"ps-async", "ps-ssp"}) {
    std::string name = strategy;
    std::erase(name, '-');
    all.push_back(with(name + "Alone", [=](auto& c) {
      c.strategy = strategy;
      c.workers = 1;
      c.batch = 9000;
      c.optimizer = "momentum";
      c.clip_norm = 0.3;
      c.damp_stale = true;  // of which there is nothing
    }));
  }
  for (const char* optimizer : {"sgd", "momentum", "adagrad", "rmsprop", "lars", "lamb"}) {
    all.push_back(with(std::string("allreduce_") + optimizer, [=](auto& c) {
      c.optimizer = optimizer;
      c.weight_decay = 0.05;
      if (std::string_view(optimizer) == "rmsprop") c.momentum = 0.5;
      if (std::string_view(optimizer) == "lars") c.trust = 0.1;
      if (std::string_view(optimizer) != "sgd" && std::string_view(optimizer) != "momentum") c.lr = 0.02;
      if (std::string_view(optimizer) == "lars") c.lr = 0.5;
      if (std::string_view(optimizer) == "rmsprop") c.lr = 0.003;
    }));
    if (std::string_view(optimizer) == "rmsprop") all.back().tolerance = 1e-4;  // it divides by small numbers
  }
  for (const int every : {1, 3}) {
    for (const char* strategy : {"local-sgd", "easgd"}) {
      std::string name = strategy;
      std::erase(name, '-');
      all.push_back(with(fmt::format("{}Every{}", name, every), [=](auto& c) {
        c.strategy = strategy;
        c.sync_every = every;
        c.optimizer = "momentum";
        c.weight_decay = 0.01;
      }));
    }
  }
  all.push_back(with("easgdOwnRate", [](auto& c) {
    c.strategy = "easgd";
    c.sync_every = 2;
    c.moving_rate = 0.15;
    c.clip_norm = 0.1;
  }));
  all.push_back(with("warmUpAndSteps", [](auto& c) {
    c.scale_lr = true;
    c.warmup_steps = 4;
    c.lr = 0.1;
    c.schedule = "step";
    c.step_size = 1;
    c.gamma = 0.5;
  }));
  all.push_back(with("warmUpAndCosineAccumulated", [](auto& c) {
    c.scale_lr = true;
    c.warmup_steps = 2;
    c.lr = 0.02;
    c.batch = 1000;
    c.accumulate = 3;
    c.schedule = "cosine";
    c.min_lr = 0.001;
  }));
  // Tables by rows, of which a step touches only some.
  for (const char* strategy : {"ps-sync", "hybrid"}) {
    for (const char* optimizer : {"sgd", "adam"}) {
      std::string name = strategy;
      std::erase(name, '-');
      all.push_back(with(name + "Rows_" + optimizer,
                         [=](auto& c) {
                           c.model = "wide-deep";
                           c.strategy = strategy;
                           c.servers = 2;
                           c.workers = 2;
                           c.batch = 120;  // more than 1,024 rows a part
                           c.optimizer = optimizer;
                           c.lr = std::string_view(optimizer) == "adam" ? 0.01 : 0.5;
                           c.weight_decay = 0.01;
                         },
                         {"wide.weight", "deep.weight"}));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Reference, ::testing::ValuesIn(cases()),
                         [](const auto& p) { return p.param.name; });

// Statistics of batches are every worker's own, until all save, evaluate or end.
TEST(RunningStatistics, AreAveragedWhereverAllMeet) {
  const ScratchFolder folder;
  config::TrainConfig c;
  c.model = "mobilenetv2";
  c.data = "synthetic";
  c.image_size = 32;
  c.classes = 10;
  c.strategy = "allreduce";
  c.workers = 3;
  c.batch = 4;
  c.steps = 5;
  c.lr = 1e-9;  // statistics of a network that stands still follow from the samples alone
  c.threads = 1;
  c.no_evaluate = true;
  c.checkpoint_every = 2;
  c.out = (folder.path() / "run").string();
  const auto setup = prepare(c, {}, 1, "now").setup;
  fixture::run(setup);
  plain::Run plain(setup);
  const auto before = plain.buffers();
  while (plain.steps() < c.steps) {
    plain.step();
    if (plain.steps() == c.steps) {
      plain.end();
    } else if (plain.steps() % 2 == 0) {
      plain.average_buffers();
    } else {
      continue;
    }
    SCOPED_TRACE(fmt::format("step {}", plain.steps()));
    expect_equal(checkpoint::load(checkpoint::step_folder(c.out, plain.steps())).model, plain.buffers(),
                 1e-3);
  }
  EXPECT_NE(plain.buffers(), before);
}

// Where all samples are one and the same, workers differ only in what they draw.
TEST(Dropout, IsDrawnByEveryWorkerForItself) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path() / "data" / "mnist");
  for (const char* part : {"train", "t10k"}) {
    data::fixture::write_part(folder.path() / "data" / "mnist", part, std::string(40UL * 28 * 28, 'x'),
                              std::string(40, '\3'));
  }
  const auto replicas_differ = [&](const char* model) {
    config::TrainConfig c;
    c.model = model;
    c.data = "mnist";
    c.strategy = "local-sgd";
    c.workers = 2;
    c.batch = 4;
    c.steps = 2;
    c.sync_every = 2;
    c.checkpoint_every = 1;
    c.threads = 1;
    c.no_evaluate = true;
    c.out = (folder.path() / model).string();
    fixture::run(prepare(c, {{folder.path() / "data"}, {}}, 1, "now").setup);
    const auto first = checkpoint::load(checkpoint::step_folder(c.out, 1));
    const auto second = checkpoint::load_replica(first.path, 1);
    EXPECT_TRUE(second);
    bool differ = false;
    for (const auto& tensor : first.model.tensors()) {
      differ = differ || numbers_in(tensor) != numbers_in(second->at("model." + tensor.name));
    }
    return differ;
  };
  EXPECT_TRUE(replicas_differ("mnist-cnn"));
  EXPECT_FALSE(replicas_differ("rnn-mnist")) << "which draws nothing";
}

}  // namespace
}  // namespace tutti::train
