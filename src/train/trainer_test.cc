// The whole loop.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/process.h"
#include "checkpoint/checkpoint.h"
#include "train/trainer_fixture.h"

namespace tutti::train {
namespace {

TEST_F(TrainerTest, LearnsAndWritesSummaryTraceAndCheckpoint) {
  auto c = config("run");
  c.steps = 60;
  c.trace = true;
  const auto s = train_here(c);
  EXPECT_GT(s.at("test_accuracy").get<double>(), 0.9);
  EXPECT_GE(s.at("test_top5"), s.at("test_accuracy"));
  EXPECT_EQ(nlohmann::json::parse(read_file(std::filesystem::path(c.out) / "summary.json")), s);
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(c.out) / "trace.json"));
  EXPECT_EQ(checkpoint::latest(c.out)->step, 60);
}

// A contract: scripts, pages and people read these, and a key that is new or gone is a decision.
TEST_F(TrainerTest, TheSummaryHasTheseKeysAndNoOthers) {
  const auto keys_of = [](const nlohmann::json& json) {
    std::set<std::string> keys;
    for (const auto& [key, value] : json.items()) keys.insert(key);
    return keys;
  };
  std::set<std::string> keys = {"batch_per_worker",
                                "bytes_sent_per_server",
                                "bytes_sent_per_worker",
                                "checkpoint_copy_ms",
                                "checkpoint_hold_ms",
                                "collectives",
                                "compute_ms",
                                "config",
                                "data",
                                "data_sha256",
                                "dropped_workers",
                                "exchange_ms",
                                "exposed_exchange_ms",
                                "finite_check_ms",
                                "gradients_per_second",
                                "initial_parameters_sha256",
                                "machine",
                                "model",
                                "pace_ms",
                                "parameter_bytes",
                                "parameters_sha256",
                                "peak_memory_bytes",
                                "replicas_sha256",
                                "reproducible",
                                "restarts",
                                "sample_ledger",
                                "samples_per_second",
                                "samples_sha256",
                                "seed",
                                "servers",
                                "skipped_steps",
                                "slow",
                                "step_ms",
                                "steps",
                                "steps_per_second",
                                "steps_per_worker",
                                "strategy",
                                "test_accuracy",
                                "test_loss",
                                "test_top5",
                                "train_loss",
                                "version",
                                "wall_seconds",
                                "workers"};
  auto c = config("allreduce", 2);
  auto s = train_here(c);
  EXPECT_EQ(keys_of(s), keys);
  EXPECT_EQ(s["bytes_sent_per_server"], 0);
  ASSERT_EQ(s["collectives"].size(), 1U);
  EXPECT_EQ(keys_of(s["collectives"][0]),
            (std::set<std::string>{"algorithm", "bytes", "operation", "reason"}));

  c.strategy = "ps-async";
  c.until = "accuracy=2";
  s = train_here(c);
  keys.insert({"max_lead", "pieces_applied", "pieces_dropped", "pieces_repeated", "staleness"});
  keys.insert({"reached", "target", "time_to_target_seconds"});
  EXPECT_EQ(keys_of(s), keys);
  EXPECT_GT(s["bytes_sent_per_server"], 0);
  EXPECT_GT(s["pieces_applied"], 0);
  EXPECT_EQ(s["collectives"], nlohmann::json::array());
  EXPECT_TRUE(s["time_to_target_seconds"].is_null());

  c.strategy = "local";
  c.workers = 1;
  c.until.clear();
  c.no_evaluate = true;
  s = train_here(c);
  EXPECT_TRUE(s["test_accuracy"].is_null());
  EXPECT_TRUE(s["test_loss"].is_null());
  EXPECT_FALSE(s.contains("test_top5"));
}

TEST_F(TrainerTest, EndsWhenTheTargetIsReachedUnderEveryStrategy) {
  for (const std::string strategy : {"allreduce", "reduce-broadcast", "ps-sync", "ps-async", "ps-ssp",
                                     "hogwild", "easgd", "local-sgd", "backup"}) {
    auto c = config("until-" + strategy, 2);
    c.strategy = strategy == "backup" ? "ps-sync" : strategy;
    c.backup_workers = strategy == "backup" ? 1 : 0;
    c.steps = 3000;
    c.evaluate_every = 5;
    c.until = "accuracy=0.5";
    const auto s = train_here(c);
    const auto steps = s.at("steps").get<std::int64_t>();
    EXPECT_TRUE(s.at("reached")) << strategy;
    EXPECT_LT(steps, 3000) << strategy;
    EXPECT_GT(s.at("time_to_target_seconds"), 0.0) << strategy;
    EXPECT_EQ(s.at("target"), (nlohmann::json{{"figure", "accuracy"}, {"value", 0.5}}));
    EXPECT_EQ(checkpoint::latest(c.out)->step, steps) << strategy;
    EXPECT_EQ(s["replicas_sha256"][0], s["replicas_sha256"][1]) << strategy;
  }
}

TEST_F(TrainerTest, StepsAreToldOneByOneWithTimesThatFitIntoThem) {
  for (const char* strategy : {"ring", "ps-async"}) {
    auto c = config(strategy, 2);
    c.strategy = strategy;
    c.overwrite = true;
    const auto run = fixture::run(prepare(c, {{folder_.path() / "data"}, {}}, 1, "now").setup);
    const auto steps = run.events.of<observe::StepDone>();
    ASSERT_FALSE(steps.empty());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const observe::StepDone& s = steps[i];
      EXPECT_EQ(s.total_steps, 8);
      EXPECT_LE(s.step, 8);
      if (c.strategy == "ring") {
        EXPECT_EQ(s.step, static_cast<std::int64_t>(i) + 1);
      }
      EXPECT_LE(s.compute_ms + s.exposed_exchange_ms, s.step_ms);
      EXPECT_GT(s.compute_ms, 0);
    }
  }
}

TEST_F(TrainerTest, ATargetThatIsNotReachedIsSaid) {
  auto c = config("run", 2);
  c.strategy = "ps-async";
  c.until = "loss=0";
  const auto s = train_here(c);
  EXPECT_FALSE(s.at("reached"));
  EXPECT_TRUE(s.at("time_to_target_seconds").is_null());
  EXPECT_EQ(s.at("steps"), 8);
}

TEST_F(TrainerTest, GenerativeModelLeavesDrawingsAtEveryEvaluation) {
  auto c = config("gan", 2);
  c.model = "gan-mnist";
  c.steps = 5;
  c.evaluate_every = 2;
  const auto drawn = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(c.out) / "samples")) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  };
  const auto s = train_here(c);
  EXPECT_EQ(drawn(),
            (std::vector<std::string>{"step-00000002.png", "step-00000004.png", "step-00000005.png"}));
  const auto png = read_file(std::filesystem::path(c.out) / "samples" / "step-00000005.png");
  EXPECT_EQ(png.substr(16, 8), std::string("\0\0\0\xf0\0\0\0\xf0", 8));  // 8 x (28 + 2) each way
  EXPECT_NEAR(s.at("test_loss"),
              s.at("test_discriminator_loss").get<double>() + s.at("test_generator_loss").get<double>(),
              1e-6);
  c.steps = 1;
  train_here(c);  // what the earlier run drew is gone
  EXPECT_EQ(drawn(), std::vector<std::string>{"step-00000001.png"});
}

TEST_F(TrainerTest, PacedStepsOfPhasesAreExchanged) {
  auto c = config("paced", 2);
  c.model = "gan-mnist";
  c.pace_ms = 1;
  const auto s = train_here(c);
  EXPECT_EQ(s["replicas_sha256"][0], s["replicas_sha256"][1]);
  EXPECT_GT(s["bytes_sent_per_worker"], 0);
}

TEST_F(TrainerTest, WithoutOverlapTheSameGradientsAreExchanged) {
  for (const char* strategy : {"allreduce", "ps-sync"}) {
    auto c = config(strategy, 2);
    c.model = "rnn-mnist";  // draws nothing, so that threads that share a generator end with the same bits
    c.strategy = strategy;
    const auto overlapped = train_here(c);
    c.no_overlap = true;
    EXPECT_EQ(train_here(c)["parameters_sha256"], overlapped["parameters_sha256"]) << strategy;
  }
}

TEST_F(TrainerTest, APacedRunOfADeviceKeepsItsPaceAndNoCheckpoint) {
  auto c = config("device", 2);
  c.device_tflops = 10;
  c.no_checkpoint = true;
  const auto s = train_here(c);
  EXPECT_GT(s["pace_ms"], 0);
  EXPECT_EQ(s["config"]["pace_ms"], s["pace_ms"]);
  EXPECT_EQ(s["config"]["device_tflops"], 0);
  EXPECT_GE(s["step_ms"]["median"], s["pace_ms"]);
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(c.out) / "checkpoints"));
}

TEST_F(TrainerTest, TablesTravelWholeWhereThatIsAskedFor) {
  auto c = config("rows", 2);
  c.model = "wide-deep";
  c.data = "synthetic";
  c.strategy = "ps-sync";
  const auto rows = train_here(c);
  c.no_sparse = true;
  const auto whole = train_here(c);
  EXPECT_TRUE(rows.contains("partitions"));
  EXPECT_FALSE(whole.contains("partitions"));
  EXPECT_GT(whole["bytes_sent_per_worker"], rows["bytes_sent_per_worker"]);
}

TEST_F(TrainerTest, FiguresOfTheModelAreInTheSummary) {
  auto c = config("words", 2);
  c.model = "lstm-lm";
  c.data = "synthetic";
  c.vocabulary = 50;
  c.embedding = 4;
  c.hidden = 8;
  c.unroll = 5;
  c.sampled = 10;
  c.steps = 2;
  auto s = train_here(c);
  EXPECT_NEAR(s.at("test_perplexity"), std::exp(s.at("test_loss").get<double>()), 1e-6);
  EXPECT_NEAR(s.at("words_per_second"), 5 * s.at("samples_per_second").get<double>(), 1e-6);
  c = config("clicks", 2);
  c.model = "wide-deep";
  c.data = "synthetic";
  c.steps = 2;
  s = train_here(c);
  EXPECT_GT(s.at("test_auc"), 0.0);
  EXPECT_LT(s.at("test_auc"), 1.0);
  EXPECT_FALSE(s.contains("words_per_second"));
}

TEST_F(TrainerTest, RunWithoutStepEndsAfterEveryWorkersGradients) {
  auto c = config("alone");
  c.strategy = "ps-async";
  const auto pieces = train_here(c).at("pieces_applied").get<std::int64_t>() / c.steps;
  ASSERT_GT(pieces, 0);
  for (const char* strategy : {"ps-async", "ps-ssp"}) {
    c = config(strategy, 3);
    c.strategy = strategy;
    const auto applied = train_here(c).at("pieces_applied").get<std::int64_t>();
    EXPECT_GE(applied, 3 * c.steps * pieces) << strategy;
    EXPECT_LE(applied, 3 * (c.steps + 1) * pieces) << strategy << ": one each may have been under way";
  }
}

// Trials of partitions begin anew a few times; nothing of the optimizer's may be lost over it.
TEST_F(TrainerTest, SearchForPartitionsChangesNoBit) {
  auto c = config("fixed", 2);
  c.model = "wide-deep";
  c.data = "synthetic";
  c.strategy = "ps-sync";
  c.optimizer = "adam";
  c.steps = 40;
  c.no_evaluate = true;
  const auto fixed = train_here(c);
  c.out = (folder_.path() / "searched").string();
  c.partitions = "auto";
  const auto searched = train_here(c);
  EXPECT_GE(searched["partition_search"].size(), 1U);
  EXPECT_EQ(searched["parameters_sha256"], fixed["parameters_sha256"]);
}

TEST_F(TrainerTest, RanksThatAreThreadsDrawEachTheirOwnRandomNumbers) {
  const auto first = train_here(config("first", 3));  // the network has dropout
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(train_here(config("again", 3)).at("parameters_sha256"), first.at("parameters_sha256"));
  }
}

TEST_F(TrainerTest, MoreWorkersThanTheLastBatchHasSamplesStillTakeEachOnce) {
  auto c = config("run", 2);
  c.steps = 0;
  c.epochs = 1;
  c.batch = 149;  // 300 = 298 + 2: one sample each in the last step
  const auto s = train_here(c);
  EXPECT_EQ(s["steps"], 2);
  c.batch = 150;
  EXPECT_EQ(train_here(c)["steps"], 1);
}

TEST_F(TrainerTest, CoresAreSharedOutUnlessThreadsAreAskedFor) {
  const int cores = static_cast<int>(allowed_cores().size());
  for (const int workers : {1, 2, 1000}) {
    auto c = config("run", workers);
    c.data = "synthetic";
    c.threads = 0;
    EXPECT_EQ(prepare(c, {}, std::nullopt, "now").setup.config.threads, std::max(1, cores / workers));
    EXPECT_EQ(prepare(c, {}, 3, "now").setup.config.threads, 3);
  }
}

TEST_F(TrainerTest, TableThatTurnsDenseIsReroutedAtTheEndOfTheEpoch) {
  auto c = config("hybrid", 2);
  c.model = "wide-deep";
  c.data = "synthetic";
  c.strategy = "hybrid";
  c.optimizer = "sgd";
  c.lr = 0.5;
  c.batch = 5000;  // two steps an epoch, which touch a large part of the tables
  c.steps = 6;
  auto setup = prepare(c, {}, 1, "now").setup;
  // As a run has them whose tables were touched little so far.
  for (const char* table : {"wide.weight", "deep.weight"}) {
    setup.routes.push_back(exchange::route(
        {.name = table, .bytes = 1 << 30, .rows = 1 << 20, .density = 0.001}, {.workers = 2, .servers = 1}));
    ASSERT_EQ(setup.routes.back().way, exchange::Way::servers);
  }
  const auto rerouted = train_as(setup);
  ASSERT_EQ(rerouted["routes"].size(), 2U);
  for (const auto& r : rerouted["routes"]) {
    EXPECT_EQ(r["route"], "all-reduce") << r.dump();
    EXPECT_GT(r["density"], 0.25);
  }
  EXPECT_EQ(rerouted["replicas_sha256"][0], rerouted["replicas_sha256"][1]);

  c.strategy = "allreduce";
  c.servers = 0;
  c.out = (folder_.path() / "dense").string();
  const auto dense = train_here(c);
  EXPECT_NEAR(rerouted["test_loss"].get<double>(), dense["test_loss"].get<double>(), 1e-5);
}

TEST_F(TrainerTest, RoutesFollowFromTheSettingsUnlessLinksAreMeasured) {
  auto c = config("hybrid", 2);
  c.model = "wide-deep";
  c.data = "synthetic";
  c.strategy = "hybrid";
  c.steps = 2;
  const auto first = train_here(c);
  const auto second = train_here(c);
  ASSERT_FALSE(first["routes"].empty());
  EXPECT_EQ(first["routes"], second["routes"]) << "with the estimated times, to the last digit";
  EXPECT_EQ(first["parameters_sha256"], second["parameters_sha256"]);
  c.measure_links = true;
  EXPECT_NE(train_here(c)["routes"], first["routes"]) << "what was measured is not what is usual";
}

}  // namespace
}  // namespace tutti::train
