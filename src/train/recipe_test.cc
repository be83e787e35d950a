// How a run is trained, whatever its strategy: optimizers, rates, accumulation, clipping, precision.
#include <gtest/gtest.h>
#include <torch/version.h>

#include <cstring>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "data/bars_fixture.h"
#include "train/run_fixture.h"

namespace tutti::train {
namespace {

using fixture::Finished;

class RecipeTest : public ::testing::Test {
 protected:
  // A network whose step depends on its samples alone: neither dropout nor batch norm.
  config::TrainConfig config(const std::string& out, const std::string& strategy = "local",
                             int workers = 1) const {
    config::TrainConfig c;
    c.model = "sdss-dnn";
    c.data = "synthetic";
    c.strategy = strategy;
    c.workers = workers;
    c.global_batch = 48;
    c.steps = 6;
    c.optimizer = "momentum";
    c.lr = 0.05;
    c.threads = 1;
    c.bucket_bytes = 16 << 10;  // several buckets
    c.no_evaluate = true;
    c.out = (folder_.path() / out).string();
    return c;
  }

  Finished run(const config::TrainConfig& c) const {
    auto anew = c;
    anew.overwrite = c.resume.empty();
    return fixture::run(prepare(anew, {{folder_.path() / "data"}, {}}, 1, "now").setup);
  }

  static void expect_refused(const config::TrainConfig& c, const std::string& word) {
    try {
      prepare(c, {}, 1, "now");
      ADD_FAILURE() << word;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  }

  // The largest difference between the parameters of two runs.
  double distance(const std::string& a, const std::string& b) const {
    const auto left = checkpoint::open_any(folder_.path() / a);
    const auto right = checkpoint::open_any(folder_.path() / b);
    double most = 0;
    for (const auto& tensor : left.model.tensors()) {
      const auto& other = right.model.at(tensor.name);
      EXPECT_EQ(tensor.bytes.size(), other.bytes.size());
      for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
        float x = 0;
        float y = 0;
        std::memcpy(&x, tensor.bytes.data() + at, sizeof x);
        std::memcpy(&y, other.bytes.data() + at, sizeof y);
        most = std::max(most, static_cast<double>(std::abs(x - y)));
      }
    }
    return most;
  }

  ScratchFolder folder_;
};

TEST_F(RecipeTest, NewOptimizersResumeToTheSameBits) {
  for (const char* optimizer : {"rmsprop", "lars", "lamb"}) {
    auto c = config("whole");
    c.optimizer = optimizer;
    if (std::string_view(optimizer) != "lamb") c.momentum = 0.8;
    const auto whole = run(c).summary;
    c.out = (folder_.path() / "half").string();
    c.steps = 3;
    run(c);
    c.resume = c.out;
    c.steps = 6;
    EXPECT_EQ(run(c).summary["parameters_sha256"], whole["parameters_sha256"]) << optimizer;
  }
}

TEST_F(RecipeTest, LayerwiseOptimizersMakeTheSameStepsUnderEveryStrategy) {
  for (const char* optimizer : {"lars", "lamb"}) {
    auto c = config("alone");
    c.optimizer = optimizer;
    run(c);
    for (const char* strategy : {"allreduce", "ps-sync", "hybrid"}) {
      c = config("together", strategy, 2);
      c.optimizer = optimizer;
      const auto s = run(c).summary;
      EXPECT_LT(distance("alone", "together"), 1e-5) << optimizer << " " << strategy;
      EXPECT_EQ(s["config"]["server_role"], std::string(strategy) == "ps-sync" ? "sum" : "auto");
    }
  }
}

TEST_F(RecipeTest, ServersThatHoldPiecesAreRefusedWhereLayersCount) {
  auto c = config("refused", "ps-sync", 2);
  c.optimizer = "lars";
  c.server_role = "update";
  expect_refused(c, "--server-role sum");
  c.server_role = "auto";
  c.backup_workers = 1;
  expect_refused(c, "--backup-workers");
  c = config("refused", "ps-async", 2);
  c.optimizer = "lamb";
  expect_refused(c, "whole layers");
}

TEST_F(RecipeTest, TablesTravelWholeWhereLayersCountAndTheRunSaysWhy) {
  auto c = config("tables", "hybrid", 2);
  c.model = "wide-deep";
  c.optimizer = "lamb";
  c.steps = 1;
  const auto notes = run(c).events.of<observe::Note>();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].text, "embedding tables travel whole: the optimizer looks at whole layers");
  c.partitions = "2";
  expect_refused(c, "whole layers");
}

TEST_F(RecipeTest, ResumedRunHasTheRatesOfTheUndisturbedOne) {
  auto c = config("whole");
  c.schedule = "cosine";
  const auto whole = run(c);
  const auto rates = whole.events.of<observe::StepDone>();
  ASSERT_EQ(rates.size(), 6U);
  EXPECT_EQ(rates[0].lr, 0.05);
  EXPECT_NEAR(rates[3].lr, 0.025, 1e-12);
  EXPECT_EQ(whole.summary["config"]["schedule_steps"], 6);

  c.out = (folder_.path() / "half").string();
  c.steps = 3;
  c.schedule_steps = 6;
  run(c);
  c.resume = c.out;
  c.steps = 6;
  const auto resumed = run(c);
  EXPECT_EQ(resumed.events.of<observe::StepDone>().back().lr, rates.back().lr);
  EXPECT_EQ(resumed.summary["parameters_sha256"], whole.summary["parameters_sha256"]);
  c.steps = 9;
  expect_refused(c, "--min-lr");
}

TEST_F(RecipeTest, LabelsAreSmoothedForTrainingAlone) {
  auto c = config("smooth");
  c.steps = 1;
  c.lr = 1e-12;  // so that both evaluations see the same parameters
  c.no_evaluate = false;
  const auto plain = run(c).summary;
  c.label_smoothing = 0.2;
  const auto smooth = run(c).summary;
  EXPECT_EQ(smooth["test_loss"], plain["test_loss"]);
  EXPECT_GT(std::abs(smooth["train_loss"].get<double>() - plain["train_loss"].get<double>()), 1e-4);
  c.model = "wide-deep";
  expect_refused(c, "--label-smoothing");
}

TEST_F(RecipeTest, PhasesAreNotClipped) {
  auto c = config("gan");
  c.model = "gan-mnist";
  c.clip_norm = 1;
  expect_refused(c, "--clip-norm");
}

TEST_F(RecipeTest, MicroBatchesMakeTheStepsOfOneLargeBatch) {
  run(config("whole"));
  for (const auto& [strategy, workers] : std::vector<std::pair<std::string, int>>{
           {"local", 1}, {"allreduce", 2}, {"ps-sync", 2}, {"ps-sync", 1}, {"reduce-broadcast", 3}}) {
    auto c = config("parts", strategy, workers);
    c.accumulate = 4;
    const auto s = run(c).summary;
    EXPECT_LT(distance("whole", "parts"), 1e-5) << strategy;
    EXPECT_EQ(s["batch_per_worker"], 48 / workers);
    EXPECT_EQ(s["steps"], 6);
  }
}

TEST_F(RecipeTest, MicroBatchesOfAShortLastBatchCountByTheirSamples) {
  auto c = config("whole");
  c.global_batch = 3000;  // a remainder that no number of micro batches divides
  c.steps = 0;
  c.epochs = 1;
  const auto whole = run(c).summary;
  c = config("parts", "allreduce", 2);
  c.global_batch = 3000;
  c.accumulate = 5;
  c.steps = 0;
  c.epochs = 1;
  const auto parts = run(c).summary;
  EXPECT_EQ(parts["steps"], whole["steps"]);
  EXPECT_LT(distance("whole", "parts"), 1e-5);
  EXPECT_NEAR(parts["train_loss"].get<double>(), whole["train_loss"].get<double>(), 1e-4);
}

TEST_F(RecipeTest, MicroBatchesAddUpTheRowsOfTables) {
  for (const char* strategy : {"hybrid", "ps-sync"}) {
    auto c = config("whole", "allreduce", 2);
    c.model = "wide-deep";
    c.optimizer = "sgd";
    c.lr = 0.5;
    c.steps = 3;
    run(c);
    c.out = (folder_.path() / "parts").string();
    c.strategy = strategy;
    c.accumulate = 3;
    run(c);
    EXPECT_LT(distance("whole", "parts"), 1e-5) << strategy;
  }
}

// A language model draws words to compare with from what it computes at a time, so each micro batch reads
// rows of its own.
TEST_F(RecipeTest, MicroBatchesReadRowsThatAreUpToDate) {
  const auto with = [&](const std::string& out, const std::string& strategy) {
    auto c = config(out, strategy, 2);
    c.model = "lstm-lm";
    c.vocabulary = 400;
    c.embedding = 8;
    c.hidden = 16;
    c.unroll = 4;
    c.sampled = 40;
    c.optimizer = "sgd";
    c.lr = 0.5;
    c.accumulate = 3;
    return c;
  };
  run(with("dense", "allreduce"));
  run(with("rows", "ps-sync"));
  EXPECT_LT(distance("dense", "rows"), 1e-6);
}

TEST_F(RecipeTest, EverySynchronousStrategyClipsTheMeanGradientAlike) {
  constexpr double kClip = 0.05;
  auto c = config("alone");
  c.clip_norm = kClip;
  const auto alone = run(c).events.of<observe::StepDone>();
  ASSERT_EQ(alone.size(), 6U);
  for (const auto& step : alone) EXPECT_GT(step.gradient_norm, kClip);

  struct Way {
    std::string strategy;
    bool aggregated = false;
    std::int64_t accumulate = 1;
  };
  for (const Way& way :
       {Way{"ring"}, Way{"allreduce"}, Way{"reduce-broadcast"}, Way{"ps-sync"}, Way{"ps-sync", true},
        Way{"hybrid"}, Way{"allreduce", false, 4}, Way{"ps-sync", false, 4}}) {
    c = config("together", way.strategy, 2);
    c.clip_norm = kClip;
    c.local_aggregation = way.aggregated;
    c.accumulate = way.accumulate;
    const auto together = run(c).events.of<observe::StepDone>();
    ASSERT_EQ(together.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(together[i].gradient_norm, alone[i].gradient_norm, 1e-5) << way.strategy << " step " << i;
    }
    EXPECT_LT(distance("alone", "together"), 1e-5) << way.strategy;
  }
  c = config("free");
  run(c);
  EXPECT_GT(distance("alone", "free"), 1e-3) << "clipping made no difference";
}

TEST_F(RecipeTest, ClippedGradientIsAsLongAsItMayBe) {
  auto c = config("step");
  c.optimizer = "sgd";
  c.lr = 1;
  c.clip_norm = 0.01;
  c.steps = 1;
  run(c);
  c.steps = 2;
  c.out = (folder_.path() / "next").string();
  run(c);
  EXPECT_LE(distance("step", "next"), 0.01);
  EXPECT_GT(distance("step", "next"), 0);
}

TEST_F(RecipeTest, TablesCountInTheNormAndTravelWholeThen) {
  auto c = config("alone", "allreduce", 2);
  c.model = "wide-deep";
  c.optimizer = "sgd";
  c.lr = 0.5;
  c.clip_norm = 0.01;
  c.steps = 2;
  run(c);
  for (const char* strategy : {"hybrid", "ps-sync"}) {
    c.strategy = strategy;
    c.out = (folder_.path() / "together").string();
    const auto notes = run(c).events.of<observe::Note>();
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_EQ(notes[0].text,
              "embedding tables travel whole: --clip-norm takes the norm of all gradients together");
    EXPECT_LT(distance("alone", "together"), 1e-6) << strategy;
  }
}

TEST_F(RecipeTest, WorkersThatGoTheirOwnWayClipTheirOwnGradient) {
  for (const char* strategy : {"ps-async", "ps-ssp", "hogwild", "local-sgd", "easgd"}) {
    auto c = config("apart", strategy, 2);
    c.clip_norm = 0.05;
    const auto r = run(c);
    for (const auto& step : r.events.of<observe::StepDone>()) EXPECT_GT(step.gradient_norm, 0) << strategy;
    for (const auto& replica : r.summary["replicas_sha256"]) {
      EXPECT_EQ(replica, r.summary["parameters_sha256"]) << strategy;
    }
  }
}

// With one worker an asynchronous server makes the steps of one process alone.
TEST_F(RecipeTest, OneAsynchronousWorkerClipsLikeOneProcess) {
  auto c = config("alone");
  c.clip_norm = 0.05;
  run(c);
  c.strategy = "ps-async";
  c.out = (folder_.path() / "served").string();
  run(c);
  EXPECT_LT(distance("alone", "served"), 1e-6);
}

TEST_F(RecipeTest, ServersThatUpdateCannotClip) {
  auto c = config("refused", "ps-sync", 2);
  c.clip_norm = 1;
  c.server_role = "update";
  expect_refused(c, "--server-role sum");
  c.server_role = "auto";
  c.backup_workers = 1;
  expect_refused(c, "--backup-workers");
}

TEST_F(RecipeTest, LossFallsInBfloat16AndParametersStayFloat32) {
  data::fixture::write_bars(folder_.path() / "data", "mnist", 2000, 100);
  using Case = std::pair<const char*, const char*>;
  for (const auto& [model, data] : {Case{"mnist-cnn", "mnist"}, Case{"sdss-dnn", "synthetic"},
                                    Case{"rnn-mnist", "mnist"}, Case{"wide-deep", "synthetic"}}) {
    auto c = config("run", "allreduce", 2);
    c.model = model;
    c.data = data;
    c.optimizer = "adam";
    c.lr = 0.002;
    c.steps = 20;
    const auto mean = [](const Finished& r, std::size_t first) {
      const auto steps = r.events.of<observe::StepDone>();
      double sum = 0;
      for (std::size_t i = 0; i < 5; ++i) sum += steps[first + i].loss / 5;
      return sum;
    };
    c.precision = "bf16";
    const auto half = run(c);
    EXPECT_LT(mean(half, 15), 0.95 * mean(half, 0)) << model;
    const auto saved = checkpoint::open_any(c.out);
    for (const auto& tensor : saved.model.tensors()) {
      EXPECT_NE(tensor.dtype, DType::bf16) << model << " " << tensor.name;
    }
    c.precision = "fp32";
    const auto full = run(c);
    EXPECT_NE(half.summary["parameters_sha256"], full.summary["parameters_sha256"]) << model;
    EXPECT_NEAR(mean(half, 0), mean(full, 0), 0.05) << model;
  }
}

#if TORCH_VERSION_MAJOR == 1
TEST_F(RecipeTest, ModelThatLibtorchCannotComputeInBfloat16IsNamed) {
  auto c = config("run");
  c.model = "mobilenetv2-cifar";
  c.precision = "bf16";
  try {
    run(c);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("mobilenetv2-cifar"), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
  }
}
#endif

// With statistics over all workers' samples, cutting a batch up changes nothing but roundings, of which fifty
// layers make much.
TEST_F(RecipeTest, SynchronisedBatchNormMakesTwoWorkersOneWithTheWholeBatch) {
  const auto step = [&](const std::string& out, const std::string& strategy, int workers, bool synchronised) {
    auto c = config(out, strategy, workers);
    c.model = "resnet50-cifar";
    c.image_size = 8;
    c.optimizer = "sgd";
    c.lr = 1;  // so that parameters tell the gradient
    c.global_batch = 24;
    c.steps = 1;
    c.sync_batchnorm = synchronised;
    run(c);
  };
  step("one", "local", 1, false);
  step("apart", "allreduce", 2, false);
  for (const char* strategy : {"allreduce", "ps-sync"}) {
    step("together", strategy, 2, true);
    EXPECT_LT(distance("one", "together"), 0.05 * distance("one", "apart")) << strategy;
  }
}

}  // namespace
}  // namespace tutti::train
