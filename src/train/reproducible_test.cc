// What else must not change a bit with --reproducible, and what it refuses.
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "train/reproducible_fixture.h"

namespace tutti::train {
namespace {

using fixture::expect_routes_to_servers;
using fixture::ReproducibleRun;
using fixture::text_of;
using fixture::TrainingWay;
using fixture::TrialCase;

TEST_F(ReproducibleRun, ShortLastBatchesShardsOfUnequalSizeAndClippingChangeNothing) {
  // 2000 samples in batches of 144: the last of an epoch has 128, and of 12 shards some are larger.
  const TrialCase recurrent{{"recurrent", "rnn-mnist"}, "momentum"};
  const auto with = [&](const TrainingWay& way) {
    auto c = config(recurrent, way);
    c.global_batch = 144;
    c.shards = 12;
    c.steps = 16;
    c.clip_norm = 0.05;
    c.accumulate = 2;
    c.no_evaluate = false;
    return run(c);
  };
  const auto alone = with({"local"});
  for (const TrainingWay& way : {TrainingWay{"ring", 5}, TrainingWay{"ps-sync", 3, 2},
                                 TrainingWay{"allreduce", 12}, TrainingWay{"hybrid", 7, 2}}) {
    const auto summary = with(way);
    EXPECT_EQ(summary["parameters_sha256"], alone["parameters_sha256"]) << text_of(way);
    EXPECT_EQ(summary["test_loss"], alone["test_loss"]) << text_of(way);
    EXPECT_EQ(summary["test_accuracy"], alone["test_accuracy"]) << text_of(way);
  }
}

TEST_F(ReproducibleRun, WorkersWithoutSamplesBringZeros) {
  // The last step of an epoch has 8 samples for 16 shards.
  data::fixture::write_bars(folder_.path() / "data", "mnist", 72, 20);
  const TrialCase dropout{{"dropout", "mnist-cnn"}, "adam"};
  const auto with = [&](const TrainingWay& way) {
    auto c = config(dropout, way);
    c.global_batch = 32;
    c.shards = 16;
    c.steps = 6;
    return run(c)["parameters_sha256"];
  };
  const auto alone = with({"local"});
  for (const TrainingWay& way :
       {TrainingWay{"ring", 3}, TrainingWay{"ps-sync", 8, 1}, TrainingWay{"allreduce", 16}}) {
    EXPECT_EQ(with(way), alone) << text_of(way);
  }
}

TEST_F(ReproducibleRun, TablesByRowsAreTheSameAsWhole) {
  const TrialCase sparse{{"sparse", "wide-deep", "synthetic", false, 32, 0, 0.1}, "adagrad"};
  const auto alone = run(config(sparse, {"local"}));
  for (const TrainingWay& way :
       {TrainingWay{"ps-sync", 3, 2}, TrainingWay{"hybrid", 3, 1}, TrainingWay{"hybrid", 5, 2}}) {
    const auto summary = run(config(sparse, way));
    EXPECT_EQ(summary["parameters_sha256"], alone["parameters_sha256"]) << text_of(way);
    if (way.strategy == "hybrid") expect_routes_to_servers(summary);
  }
}

TEST_F(ReproducibleRun, GoesOnWithOtherWorkersAndStrategiesToTheSameBits) {
  const TrialCase dropout{{"dropout", "mnist-cnn"}, "adam"};
  const auto whole = run(config(dropout, {"ring", 2}))["parameters_sha256"];
  auto c = config(dropout, {"ps-sync", 3, 2});
  c.no_checkpoint = false;
  c.steps = 15;
  run(c);
  for (const TrainingWay& way :
       {TrainingWay{"local"}, TrainingWay{"allreduce", 5, 0, "tree"}, TrainingWay{"hybrid", 4, 1}}) {
    auto on = config(dropout, way);
    on.resume = c.out;
    on.overwrite = false;
    on.out = (folder_.path() / "on").string();
    EXPECT_EQ(run(on)["parameters_sha256"], whole) << text_of(way);
    std::filesystem::remove_all(on.out);
  }
}

// Running statistics and tables by rows are elsewhere at each of these, and go on all the same.
TEST_F(ReproducibleRun, StatisticsAndRowsGoOnWithOtherWorkersAndStrategies) {
  for (const char* workload : {"batch_norm", "sparse"}) {
    const auto found = std::ranges::find_if(
        all_cases(), [&](const TrialCase& c) { return c.workload.name == workload && c.optimizer == "sgd"; });
    ASSERT_NE(found, all_cases().end());
    auto alone = config(*found, {"local"});
    alone.steps = 3;
    const auto whole = run(alone)["parameters_sha256"];
    std::string before;
    for (const TrainingWay& way :
         {TrainingWay{"hybrid", 3, 1}, TrainingWay{"ring", 2}, TrainingWay{"ps-sync", 3, 2}}) {
      auto c = config(*found, way);
      c.no_checkpoint = false;
      c.resume = before;
      c.overwrite = false;
      c.out = (folder_.path() / fmt::format("{}-{}", workload, way.strategy)).string();
      c.steps = before.empty() ? 1 : way.strategy == "ring" ? 2 : 3;
      const auto summary = run(c);
      if (c.steps == 3) {
        EXPECT_EQ(summary["parameters_sha256"], whole) << workload;
      }
      before = c.out;
    }
  }
}

// Two phases a step, and products of fewer bits.
TEST_F(ReproducibleRun, PhasesAndBfloat16ChangeNothing) {
  const auto with = [&](const char* model, const char* precision, const TrainingWay& way) {
    auto c = config({{"other", model}, "adam"}, way);
    c.precision = precision;
    c.steps = 3;
    return run(c);
  };
  for (const auto& [model, precision] : {std::pair{"gan-mnist", "fp32"}, std::pair{"mnist-cnn", "bf16"}}) {
    const auto alone = with(model, precision, {"local"});
    const auto ring = with(model, precision, {"ring", 3});
    EXPECT_NE(alone["parameters_sha256"], alone["initial_parameters_sha256"]) << model;
    EXPECT_EQ(ring["parameters_sha256"], alone["parameters_sha256"]) << model;
    EXPECT_EQ(ring["train_loss"], alone["train_loss"]) << model;
  }
  EXPECT_NE(with("mnist-cnn", "fp32", {"local"})["parameters_sha256"],
            with("mnist-cnn", "bf16", {"local"})["parameters_sha256"])
      << "nothing was computed in bf16";
}

// The check itself can fail.
TEST_F(ReproducibleRun, OneBitOfAGradientShowsInTheHash) {
  const TrialCase dropout{{"dropout", "mnist-cnn"}, "sgd"};
  const auto with = [&](const TrainingWay& way, const std::string& flip_bit, int shards = 8) {
    auto c = config(dropout, way);
    c.steps = 3;
    c.shards = shards;
    c.flip_bit = flip_bit;
    return run(c)["parameters_sha256"].get<std::string>();
  };
  const auto expected = with({"local"}, "");
  for (const TrainingWay& way :
       {TrainingWay{"local"}, TrainingWay{"ring", 3}, TrainingWay{"ps-sync", 2, 1}}) {
    EXPECT_EQ(with(way, ""), expected) << text_of(way);
    const auto flip_bit = fmt::format("{}:2:dense3.bias:4:22:gradient", way.workers - 1);
    EXPECT_NE(with(way, flip_bit), expected) << text_of(way);
  }
  EXPECT_NE(with({"local"}, "", 4), expected) << "shards of other sizes";
}

// Shards of one worker take turns, and a layer's statistics are those of all of them. Micro batches, dropout
// and evaluation as well: all must be the same whoever has which shards.
TEST_F(ReproducibleRun, SynchronisedBatchNormEndsWithTheSameBits) {
  const TrialCase norm{{"batch_norm", "mobilenetv2-cifar", "synthetic", true, 32, 32}, "adam"};
  const auto with = [&](const TrainingWay& way, bool synchronised = true) {
    auto c = config(norm, way);
    c.sync_batchnorm = synchronised;
    c.shards = 4;
    c.accumulate = 2;
    c.steps = 2;
    return run(c);
  };
  const auto alone = with({"local"});
  const std::string expected = alone["parameters_sha256"];
  for (const TrainingWay& way :
       {TrainingWay{"ring", 2}, TrainingWay{"ps-sync", 3, 2}, TrainingWay{"allreduce", 4}}) {
    const auto summary = with(way);
    EXPECT_EQ(summary["parameters_sha256"], expected) << text_of(way);
    for (const auto& replica : summary["replicas_sha256"]) EXPECT_EQ(replica, expected) << text_of(way);
    EXPECT_EQ(summary["train_loss"], alone["train_loss"]) << text_of(way);
  }
  EXPECT_NE(with({"local"}, false)["parameters_sha256"].get<std::string>(), expected)
      << "a shard's own statistics would be others";
}

// Each of these hangs on a part's own samples: what a shard drops, the statistics of its micro batches, and
// the norm of the sum that all of them make.
TEST_F(ReproducibleRun, MicroBatchesClippingDropoutAndBatchNormTogetherChangeNothing) {
  const TrialCase mobile{{"batch_norm", "mobilenetv2-cifar", "synthetic", true, 16, 32}, "sgd"};
  const auto with = [&](const TrainingWay& way, std::int64_t accumulate, double clip_norm = 0.05) {
    auto c = config(mobile, way);
    c.shards = 4;
    c.accumulate = accumulate;
    c.clip_norm = clip_norm;
    c.steps = 3;
    return run(c);
  };
  std::vector<std::string> hashes;
  for (const std::int64_t accumulate : {1, 2}) {
    const auto alone = with({"local"}, accumulate);
    const std::string expected = alone["parameters_sha256"];
    for (const TrainingWay& way : {TrainingWay{"ring", 2}, TrainingWay{"ps-sync", 3, 2}}) {
      const auto summary = with(way, accumulate);
      EXPECT_EQ(summary["parameters_sha256"], expected) << text_of(way) << ", in " << accumulate;
      for (const auto& replica : summary["replicas_sha256"]) EXPECT_EQ(replica, expected) << text_of(way);
      EXPECT_EQ(summary["train_loss"], alone["train_loss"]) << text_of(way) << ", in " << accumulate;
    }
    hashes.push_back(expected);
  }
  EXPECT_NE(hashes[0], hashes[1]) << "a micro batch's statistics are others than its shard's";
  EXPECT_NE(with({"local"}, 1, 0)["parameters_sha256"].get<std::string>(), hashes[0])
      << "nothing was clipped";
}

TEST_F(ReproducibleRun, AugmentationIsTheSameWhoeverDecodesTheSample) {
  // Three epochs of three steps, so that every sample is seen in other ways, and by others.
  data::fixture::write_bars(folder_.path() / "data", "mnist", 72, 20);
  const TrialCase dropout{{"dropout", "mnist-cnn"}, "adam"};
  const auto with = [&](const TrainingWay& way, bool augmented = true) {
    auto c = config(dropout, way);
    c.global_batch = 24;
    c.steps = 9;
    c.crop = c.flip = augmented;
    c.cutout = augmented ? 6 : 0;
    c.no_evaluate = false;
    return run(c);
  };
  const auto alone = with({"local"});
  for (const TrainingWay& way : {TrainingWay{"ring", 2}, TrainingWay{"ps-sync", 3, 1},
                                 TrainingWay{"allreduce", 4}, TrainingWay{"hybrid", 4, 2}}) {
    const auto summary = with(way);
    EXPECT_EQ(summary["parameters_sha256"], alone["parameters_sha256"]) << text_of(way);
    EXPECT_EQ(summary["train_loss"], alone["train_loss"]) << text_of(way);
    EXPECT_EQ(summary["test_loss"], alone["test_loss"]) << text_of(way);
  }
  EXPECT_NE(with({"local"}, false)["parameters_sha256"], alone["parameters_sha256"]) << "nothing was changed";
}

// Real processes' transports are those of cli/same_bits_test.cc.
TEST_F(ReproducibleRun, ThreadsEndWithTheSameBitsOverMemoryAndSockets) {
  for (const char* workload : {"dropout", "sparse"}) {
    const auto found = std::ranges::find_if(
        all_cases(), [&](const TrialCase& c) { return c.workload.name == workload && c.optimizer == "sgd"; });
    const auto with = [&](const TrainingWay& way, net::Medium medium = net::Medium::memory) {
      auto c = config(*found, way);
      c.steps = 5;
      return run(c, medium)["parameters_sha256"];
    };
    const auto alone = with({"local"});
    for (const auto medium : {net::Medium::memory, net::Medium::sockets, net::Medium::sealed_sockets,
                              net::Medium::encrypted_sockets}) {
      for (const TrainingWay& way : {TrainingWay{"ring", 3}, TrainingWay{"ps-sync", 2, 1}}) {
        EXPECT_EQ(with(way, medium), alone)
            << workload << ", " << text_of(way) << " over medium " << static_cast<int>(medium);
      }
    }
  }
}

TEST_F(ReproducibleRun, ReplicasAreTheSameAfterEveryStep) {
  const TrialCase norm{{"batch_norm", "mobilenetv2-cifar", "synthetic", true, 8, 32}, "sgd"};
  for (const TrainingWay& way : {TrainingWay{"ring", 3}, TrainingWay{"ps-sync", 2, 1}}) {
    auto c = config(norm, way);
    c.steps = 3;
    c.check_replicas = 1;
    EXPECT_NO_THROW(run(c)) << text_of(way);
  }
}

// Of the first batch norm that computes on this thread.
thread_local torch::Tensor running_mean;

std::unique_ptr<at::ObserverContext> find_running_mean(const at::RecordFunction& call) {
  constexpr std::size_t kPlace = 3;
  if (!running_mean.defined() && std::string_view(call.name()) == "aten::batch_norm")
    running_mean = call.inputs()[kPlace].toTensor();
  return nullptr;
}

// Rank 0's, which hears of each step when it has been made, and before replicas are compared.
struct ChangesAMean final : observe::EventSink {
  void emit(const observe::Event& event) override {
    const auto* done = std::get_if<observe::StepDone>(&event);
    if (done != nullptr && done->step == 2) running_mean[0] += 1;
  }
};

TEST_F(ReproducibleRun, RunningStatisticsAreAmongWhatIsCompared) {
  auto c = config({{"batch_norm", "mobilenetv2-cifar", "synthetic", true, 8, 32}, "sgd"}, {"ring", 3});
  c.steps = 3;
  c.check_replicas = 1;
  const auto setup = prepare(c, {}, 1, "now").setup;
  make_run_folder(setup);
  std::array<std::string, 3> said;
  net::run_as_threads(net::Medium::memory, 3, std::chrono::seconds(100), [&](net::Transport& t) {
    fixture::Events unheard;
    ChangesAMean changes;
    const bool first = t.rank() == Rank{0};
    const auto watch =
        at::addThreadLocalCallback(at::RecordFunctionCallback(find_running_mean).needsInputs(true));
    try {
      train(setup, t, first ? static_cast<observe::EventSink&>(changes) : unheard);
    } catch (const RunError& e) {
      said[static_cast<std::size_t>(to_int(t.rank()))] = e.what();
    }
    at::removeCallback(watch);
    running_mean.reset();
  });
  for (const auto& line : said) {
    EXPECT_TRUE(line.starts_with("step 2: the replicas differ: rank 0 is not as the other 2, first in "))
        << line;
    EXPECT_NE(line.find(".running_mean, whose digest is"), std::string::npos) << line;
  }
}

TEST_F(ReproducibleRun, RefusesWhatCannotBeKept) {
  const auto refused = [&](const std::string& word, const auto& change) {
    auto c = config({{"recurrent", "rnn-mnist"}, "sgd"}, {"allreduce", 2});
    change(c);
    try {
      prepare(c, {{folder_.path() / "data"}, {}}, 1, "now");
      ADD_FAILURE() << word;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  refused("at least one for each of 9 workers", [](auto& c) {
    c.workers = 9;
    c.shards = 8;
    c.global_batch = 72;
  });
  refused("a divisor of the 20 samples", [](auto& c) { c.global_batch = 20; });
  refused("do not keep step", [](auto& c) { c.strategy = "ps-async"; });
  refused("replicas differ", [](auto& c) { c.strategy = "local-sgd"; });
  refused("--shards must be left out", [](auto& c) {
    c.reproducible = false;
    c.shards = 8;
  });
  refused("--scale-lr", [](auto& c) { c.scale_lr = true; });
}

}  // namespace
}  // namespace tutti::train
