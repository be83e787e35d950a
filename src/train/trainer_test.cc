// The whole loop on small data of its own, ranks as threads.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/process.h"
#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/diff.h"
#include "data/bars_fixture.h"
#include "train/run_fixture.h"

namespace tutti::train {
namespace {

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() { data::fixture::write_bars(folder_.path() / "data", "mnist", 300, 60); }

  config::TrainConfig config(const std::string& out, int workers = 1) const {
    config::TrainConfig c;
    c.data = "mnist";
    c.strategy = workers == 1 ? "local" : "allreduce";
    c.workers = workers;
    c.batch = 16;
    c.steps = 8;
    c.threads = 1;
    c.bucket_bytes = 64 << 10;
    c.out = (folder_.path() / out).string();
    return c;
  }

  // A network that keeps statistics of its batches.
  config::TrainConfig with_batch_norm(const std::string& out) const {
    auto c = config(out, 2);
    c.model = "mobilenetv2";
    c.data = "synthetic";
    c.image_size = 32;
    c.classes = 10;
    c.batch = 4;
    c.steps = 5;
    return c;
  }

  nlohmann::json train_here(const config::TrainConfig& c) const {
    auto anew = c;
    anew.overwrite = c.resume.empty();
    return train_as(prepare(anew, {{folder_.path() / "data"}, {}}, 1, "now").setup);
  }

  static nlohmann::json train_as(const train::Setup& setup) { return fixture::run(setup).summary; }

  ScratchFolder folder_;
};

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

TEST_F(TrainerTest, ResumedRunEndsWithTheSameBitsAsAnUndisturbedOne) {
  auto c = config("whole");
  c.steps = 25;  // over the end of an epoch of 19 steps
  const auto whole = train_here(c);
  c.out = (folder_.path() / "half").string();
  c.steps = 10;
  train_here(c);
  c.resume = c.out;
  c.steps = 25;
  const auto again = fixture::run(prepare(c, {{folder_.path() / "data"}, {}}, 1, "now").setup);
  const auto& resumed = again.summary;
  EXPECT_EQ(resumed["parameters_sha256"], whole["parameters_sha256"]);
  EXPECT_DOUBLE_EQ(resumed["steps_per_second"], resumed["gradients_per_second"]) << "of the steps made here";
  EXPECT_TRUE(again.events.of<observe::Note>().empty()) << again.events.of<observe::Note>()[0].text;
  EXPECT_TRUE(checkpoint::diff(checkpoint::open_any(folder_.path() / "whole"),
                               checkpoint::open_any(folder_.path() / "half"))
                  .identical());
}

TEST_F(TrainerTest, ReplicasThatDifferAreAllSavedAndGoOnToTheSameBits) {
  for (const std::string strategy : {"local-sgd", "easgd"}) {
    auto c = config("whole-" + strategy, 3);
    c.strategy = strategy;
    c.steps = 20;
    c.sync_every = 4;
    const auto whole = train_here(c);
    c.out = (folder_.path() / ("half-" + strategy)).string();
    c.checkpoint_every = 5;  // between two synchronisations
    train_here(c);
    for (const std::int64_t step : {10, 15}) remove_tree(checkpoint::step_folder(c.out, step));
    remove_tree(checkpoint::step_folder(c.out, 20));
    ASSERT_EQ(checkpoint::latest(c.out)->step, 5);
    for (const int rank : {1, 2}) {
      EXPECT_TRUE(checkpoint::load_replica(checkpoint::latest(c.out)->path, rank)) << strategy << rank;
    }
    c.resume = c.out;
    EXPECT_EQ(train_here(c)["parameters_sha256"], whole["parameters_sha256"]) << strategy;
  }
}

TEST_F(TrainerTest, StoppedRunKeepsEveryWorkersOwnStatistics) {
  auto c = with_batch_norm("whole");
  const auto whole = train_here(c);
  c.out = (folder_.path() / "stopped").string();
  const auto setup = prepare(c, {{folder_.path() / "data"}, {}}, 1, "now").setup;
  const auto stopped =
      fixture::run(setup, [](const net::StatusBoard& board) { board.requests().ask(net::Request::stop); });
  EXPECT_TRUE(stopped.summary.is_null());
  ASSERT_EQ(checkpoint::latest(c.out)->step, 2) << "asked before the first step, decided after it";
  c.resume = c.out;
  const auto resumed = train_here(c);
  EXPECT_EQ(resumed["parameters_sha256"], whole["parameters_sha256"]);
  EXPECT_EQ(resumed["replicas_sha256"], whole["replicas_sha256"]);
}

TEST_F(TrainerTest, ResumedWorkersAllBeginWithTheSavedStatistics) {
  auto c = with_batch_norm("whole");
  c.checkpoint_every = 2;  // where all have the same
  const auto whole = train_here(c);
  for (const int step : {4, 5}) remove_tree(checkpoint::step_folder(c.out, step));
  ASSERT_EQ(checkpoint::latest(c.out)->step, 2);
  EXPECT_FALSE(checkpoint::load_replica(checkpoint::latest(c.out)->path, 1)) << "it would be rank 0's again";
  c.resume = c.out;
  EXPECT_EQ(train_here(c)["replicas_sha256"], whole["replicas_sha256"]);
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

TEST_F(TrainerTest, ResumingAnotherRunIsRefusedWithBothValues) {
  auto c = config("run");
  train_here(c);
  c.resume = c.out;
  c.steps = 20;
  c.batch = 8;
  try {
    train_here(c);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("batch 16, this one 8"), std::string::npos) << e.what();
  }
}

TEST_F(TrainerTest, DamagedCheckpointIsRefused) {
  auto c = config("run");
  train_here(c);
  const auto file = checkpoint::latest(c.out)->path / "model.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file_atomically(file, bytes);
  c.resume = c.out;
  c.steps = 20;
  EXPECT_THROW(train_here(c), DataError);
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

TEST_F(TrainerTest, BadInputIsRefusedBeforeAnythingIsWritten) {
  const auto expect_refused = [&](auto change, const char* word) {
    auto c = config("refused");
    change(c);
    try {
      prepare(c, {{folder_.path() / "data"}, {}}, 1, "now");
      ADD_FAILURE() << word;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "refused")) << word;
  };
  expect_refused([](auto& c) { c.model = "nonsense"; }, "nonsense");
  expect_refused([](auto& c) { c.strategy = "nonsense"; }, "nonsense");
  expect_refused([](auto& c) { c.optimizer = "nonsense"; }, "nonsense");
  expect_refused([](auto& c) { c.data = "nonsense"; }, "nonsense");
  expect_refused([](auto& c) { c.data = "fashion-mnist"; }, "fashion-mnist");
  expect_refused([](auto& c) { c.workers = 0; }, "--workers");
  expect_refused([](auto& c) { c.workers = 2; }, "local");
  expect_refused([](auto& c) { c.batch = 301; }, "larger than the data");
  expect_refused([](auto& c) { c.until = "perplexity=9"; }, "it has: loss, accuracy, top5");
  expect_refused([](auto& c) { c.resume = "/no/such/run"; }, "/no/such/run");
  const auto aggregated = [](const char* strategy, int backup_workers) {
    return [=](auto& c) {
      c.strategy = strategy;
      c.workers = 4;
      c.local_aggregation = true;
      c.backup_workers = backup_workers;
    };
  };
  expect_refused(aggregated("ps-async", 0),
                 "--local-aggregation is for ps-sync; --strategy ps-async does not read it");
  expect_refused(aggregated("ps-sync", 1), "--local-aggregation does not fit --backup-workers");
  expect_refused([](auto& c) { c.sync_every = 5; },
                 "--sync-every 5 is for easgd, local-sgd; --strategy local");
  const auto colocated = [](int servers) {
    return [servers](auto& c) {
      c.strategy = "ps-sync";
      c.workers = 2;
      c.colocate = true;
      c.servers = servers;
    };
  };
  expect_refused(colocated(1), "--colocate puts a server into each of 2 workers, not 1");
  auto fits = config("fits");
  colocated(2)(fits);
  EXPECT_EQ(prepare(fits, {{folder_.path() / "data"}, {}}, 1, "now").setup.config.servers, 2);
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

TEST_F(TrainerTest, RunFolderThatCannotBeWrittenIsRefused) {
  EXPECT_THROW(make_run_folder({.config = config("/proc/nothing")}), ConfigError);
}

TEST_F(TrainerTest, ResumedRunForgetsWhatCameAfterItsCheckpoint) {
  auto c = config("run");
  train_here(c);
  const auto metrics = std::filesystem::path(c.out) / "metrics.jsonl";
  write_file_atomically(metrics, std::string_view("{\"step\":7}\n{\"step\":8}\n{\"step\":9}\n{\"step\":1"));
  c.resume = c.out;
  c.steps = 20;
  make_run_folder(prepare(c, {{folder_.path() / "data"}, {}}, 1, "now").setup);
  EXPECT_EQ(read_file(metrics), "{\"step\":7}\n{\"step\":8}\n");
}

TEST_F(TrainerTest, DamagedDataNamesTheFileTheUserKnows) {
  const auto labels = folder_.path() / "data" / "mnist" / "train-labels-idx1-ubyte";
  std::string bytes = read_file(labels);
  bytes[20] = 77;
  write_file_atomically(labels, bytes);
  try {
    prepare(config("refused"), {{folder_.path() / "data"}, {}}, 1, "now");
    FAIL();
  } catch (const DataError& e) {
    EXPECT_NE(std::string(e.what()).find("train-labels-idx1-ubyte"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("20"), std::string::npos) << e.what();
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

TEST_F(TrainerTest, SynchronisedBatchNormNeedsWorkersThatKeepStep) {
  auto c = config("run", 2);
  c.model = "resnet50-cifar";
  c.strategy = "ps-async";
  c.sync_batchnorm = true;
  const auto prepare_here = [&] { prepare(c, {{folder_.path() / "data"}, {}}, 1, "now"); };
  EXPECT_THROW(prepare_here(), ConfigError);
  c.strategy = "allreduce";
  EXPECT_NO_THROW(prepare_here());
  c.workers = 7;
  c.batch = 1;  // 300 samples are 42 steps and 6 samples for 7 workers
  EXPECT_THROW(prepare_here(), ConfigError);
}

TEST_F(TrainerTest, OnlyImagesAreAugmented) {
  auto c = config("run");
  c.crop = true;
  c.cutout = 4;
  EXPECT_LT(train_here(c)["train_loss"].get<double>(), 3);
  c.model = "sdss-dnn";
  c.data = "synthetic";
  EXPECT_THROW(train_here(c), ConfigError);
}

}  // namespace
}  // namespace tutti::train
