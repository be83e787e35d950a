// Which checkpoint a run goes on from, and when it may not. Ranks are threads.
#include "train/resume.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/bars_fixture.h"
#include "train/run_fixture.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

class Resume : public ::testing::Test {
 protected:
  Resume() { data::fixture::write_bars(root() / "data", "mnist", 300, 60); }

  const fs::path& root() const { return folder_.path(); }

  config::TrainConfig config(const std::string& out = "run", const std::string& strategy = "local") const {
    config::TrainConfig c;
    c.model = "rnn-mnist";  // draws nothing
    c.data = "mnist";
    c.strategy = strategy;
    c.workers = strategy == "local" ? 1 : 2;
    c.batch = 8;
    c.steps = 6;
    c.checkpoint_every = 2;
    c.threads = 1;
    c.no_evaluate = true;
    c.out = (root() / out).string();
    return c;
  }

  Prepared prepared(const config::TrainConfig& c, const std::string& data = "data") const {
    return prepare(c, {{root() / data}, {}}, 1, "now");
  }
  nlohmann::json run(const config::TrainConfig& c) const { return fixture::run(prepared(c).setup).summary; }

  static void flip_a_bit(const fs::path& step_folder) {
    const auto file = step_folder / "model.safetensors";
    std::string bytes = read_file(file);
    bytes[bytes.size() - 9] = static_cast<char>(bytes[bytes.size() - 9] ^ 4);
    write_file_atomically(file, bytes);
  }

  // As 0.1.0 left it: no marker, no digest of the data.
  static void make_old(const config::TrainConfig& c) {
    fs::remove(fs::path(c.out) / kMarker);
    for (const auto& step : checkpoint::list(c.out)) {
      const auto whole = checkpoint::load(step.path);
      auto meta = whole.meta;
      meta.erase("data_sha256");
      checkpoint::save(c.out, step.step, whole.model.tensors(), whole.optimizer->tensors(), meta);
    }
  }

  static config::TrainConfig longer(config::TrainConfig c, const std::string& resume) {
    c.resume = resume;
    c.steps = 10;
    return c;
  }

  template <typename Error>
  static std::string refusal(const auto& call) {
    try {
      call();
    } catch (const Error& e) {
      return e.what();
    }
    ADD_FAILURE() << "was not refused";
    return "";
  }

 private:
  ScratchFolder folder_;
};

TEST_F(Resume, TakesARunFolderOrOneStepOfIt) {
  const auto c = config();
  run(c);
  EXPECT_EQ(prepared(longer(c, c.out)).setup.first_step, 6);
  auto step = longer(c, checkpoint::step_folder(c.out, 4).string());
  step.out.clear();
  const auto from_step = prepared(step).setup;
  EXPECT_EQ(from_step.first_step, 4);
  EXPECT_EQ(from_step.config.out, c.out);
  step.resume += "/";
  EXPECT_EQ(prepared(step).setup.config.out, c.out);
  const fs::path by_a_detour = root() / "data" / ".." / "run";
  EXPECT_EQ(run_folder_of(checkpoint::step_folder(by_a_detour, 4)), by_a_detour) << "as it was written";
}

TEST_F(Resume, ReadsTheSettingsOfARunOrSaysThatThereIsNone) {
  const auto c = config();
  run(c);
  EXPECT_EQ(config_of_run(c.out).model, "rnn-mnist");
  const std::string nowhere = (root() / "data").string();
  EXPECT_EQ(refusal<DataError>([&] { config_of_run(nowhere); }),
            "--resume " + nowhere + ": no finished checkpoint there");
}

// Where several workers share one of several hosts, as processes that others have started do.
TEST_F(Resume, WhatNobodyAskedForIsChosenAnew) {
  auto c = config("run", "ps-sync");
  c.workers = 3;
  const std::vector<int> two_hosts = {0, 0, 1, 1};
  const auto prepared_there = [&](const config::TrainConfig& how) {
    return prepare(how, {{root() / "data"}, {}}, 1, "now", two_hosts);
  };
  const auto first = prepared_there(c).setup;
  EXPECT_TRUE(first.config.local_aggregation);
  fixture::run(first);
  EXPECT_FALSE(config_of_run(c.out).local_aggregation);
  const auto gone_on = [&](const auto& change) {
    auto next = longer(config_of_run(c.out), c.out);
    change(next);
    return prepared_there(next).setup.config.local_aggregation;
  };
  EXPECT_TRUE(gone_on([](auto&) {}));
  EXPECT_FALSE(gone_on([](auto& n) { n.no_local_aggregation = true; }));
  EXPECT_FALSE(gone_on([](auto& n) { n.on_nonfinite = "skip"; }));

  c.local_aggregation = c.overwrite = true;
  fixture::run(prepared_there(c).setup);
  EXPECT_TRUE(config_of_run(c.out).local_aggregation) << "it was asked for";
  EXPECT_NE(refusal<ConfigError>([&] {
              gone_on([](auto& n) { n.on_nonfinite = "skip"; });
            }).find("--local-aggregation"),
            std::string::npos);
}

TEST_F(Resume, FromAnEarlierStepEndsWithTheSameBitsAndSetsTheOldSeriesAside) {
  const auto c = config();
  const auto whole = run(c);
  auto again = c;
  again.resume = checkpoint::step_folder(c.out, 2).string();
  EXPECT_EQ(run(again)["parameters_sha256"], whole["parameters_sha256"]);
  EXPECT_TRUE(fs::exists(fs::path(c.out) / "checkpoints" / "step-4.superseded"));
  EXPECT_EQ(checkpoint::list(c.out).size(), 3U);
}

TEST_F(Resume, FallsBackToTheCheckpointBeforeADamagedOneAndSaysSo) {
  const auto c = config();
  run(c);
  flip_a_bit(checkpoint::step_folder(c.out, 6));
  const auto found = prepared(longer(c, c.out));
  EXPECT_EQ(found.setup.first_step, 4);
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_NE(found.notes[0].find("step-6/model.safetensors"), std::string::npos) << found.notes[0];
  EXPECT_NE(found.notes[0].find("step 4"), std::string::npos) << found.notes[0];
  // Who names one step wants that one.
  refusal<DataError>([&] { prepared(longer(c, checkpoint::step_folder(c.out, 6).string())); });
  for (const int step : {2, 4}) flip_a_bit(checkpoint::step_folder(c.out, step));
  for (const std::string& resume : {c.out, std::string(kAuto)}) {
    const auto line = refusal<DataError>([&] { prepared(longer(c, resume)); });
    EXPECT_NE(line.find("step-6/model.safetensors"), std::string::npos) << line;
  }
}

TEST_F(Resume, ComparesDataByContentNotByName) {
  const auto c = config();
  const auto s = run(c);
  EXPECT_EQ(s["data_sha256"].get<std::string>().size(), 64U);
  data::fixture::write_bars(root() / "moved", "fashion-mnist", 300, 60);
  auto moved = longer(c, c.out);
  moved.data = "fashion-mnist";
  EXPECT_EQ(prepared(moved, "moved").setup.data_sha256, s["data_sha256"].get<std::string>());

  const auto labels = root() / "data" / "mnist" / "t10k-labels-idx1-ubyte";
  auto bytes = read_file(labels);
  bytes.back() = bytes.back() == 1 ? 2 : 1;
  write_file_atomically(labels, bytes);
  const auto line = refusal<ConfigError>([&] { prepared(longer(c, c.out)); });
  EXPECT_NE(line.find("SHA-256"), std::string::npos) << line;
}

TEST_F(Resume, ComparesMadeUpDataByWhatItIsMadeFrom) {
  auto c = config();
  c.data = "synthetic";
  const auto digest = prepared(c).setup.data_sha256;
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(prepared(c).setup.data_sha256, digest);
  c.seed = 2;
  EXPECT_NE(prepared(c).setup.data_sha256, digest);
}

TEST_F(Resume, GoesOnFromAFolderOfAnOlderVersionWhoseDataHasANameOnly) {
  const auto c = config();
  run(c);
  make_old(c);
  data::fixture::write_bars(root() / "data", "fashion-mnist", 300, 60);
  auto other = longer(c, c.out);
  other.data = "fashion-mnist";
  refusal<ConfigError>([&] { prepared(other); });
  EXPECT_EQ(run(longer(c, c.out))["steps"], 10);
  EXPECT_TRUE(fs::exists(fs::path(c.out) / kMarker));
}

TEST_F(Resume, AtTheLastStepIsRefusedUnlessItIsAutomatic) {
  auto c = config();
  run(c);
  c.resume = c.out;
  EXPECT_NE(refusal<ConfigError>([&] { prepared(c); }).find("ask for more"), std::string::npos);
  c.resume = kAuto;
  EXPECT_TRUE(prepared(c).complete);
  c.steps = 5;
  refusal<ConfigError>([&] { prepared(c); });
}

TEST_F(Resume, AutomaticallyBeginsGoesOnAndFindsTheRunComplete) {
  auto c = config();
  c.resume = kAuto;
  EXPECT_EQ(prepared(c).setup.first_step, 0);
  const auto s = run(c);
  EXPECT_TRUE(prepared(c).complete);
  c.steps = 10;
  const auto more = prepared(c);
  EXPECT_FALSE(more.complete);
  EXPECT_EQ(more.setup.first_step, 6);
  c.out.clear();
  EXPECT_NE(refusal<ConfigError>([&] { prepared(c); }).find("--out"), std::string::npos);
}

TEST_F(Resume, ARunThatReachedItsTargetIsComplete) {
  auto c = config();
  c.resume = kAuto;
  c.no_evaluate = false;
  c.evaluate_every = 2;
  c.until = "accuracy=0";
  EXPECT_EQ(run(c)["steps"], 2);
  EXPECT_TRUE(prepared(c).complete);
  c.until = "accuracy=0.999";
  EXPECT_FALSE(prepared(c).complete);
}

TEST_F(Resume, ARunThatSavesNothingIsCompleteOrKept) {
  auto c = config();
  c.resume = kAuto;
  c.checkpoint_every = 0;
  c.no_checkpoint = true;
  run(c);
  EXPECT_TRUE(prepared(c).complete);
  c.steps = 10;
  EXPECT_NE(refusal<ConfigError>([&] { prepared(c); }).find("--overwrite"), std::string::npos);
}

TEST_F(Resume, ARunThatWasKilledAtItsEndIsFinishedUnderEveryStrategy) {
  for (const std::string strategy :
       {"local", "allreduce", "ps-sync", "ps-async", "ps-ssp", "hogwild", "easgd", "local-sgd", "hybrid"}) {
    auto c = config(strategy, strategy);
    if (strategy == "hybrid") {
      c.model = "wide-deep";
      c.data = "synthetic";
    }
    c.no_evaluate = false;
    c.resume = kAuto;
    const auto whole = run(c);
    fs::remove(fs::path(c.out) / "summary.json");
    const auto ended = run(c);
    EXPECT_EQ(ended["parameters_sha256"], whole["parameters_sha256"]) << strategy;
    EXPECT_EQ(ended["test_loss"], whole["test_loss"]) << strategy;
    EXPECT_EQ(ended["steps"], 6) << strategy;
    EXPECT_EQ(ended["samples_per_second"], 0) << strategy;
    EXPECT_TRUE(ended["train_loss"].is_null()) << strategy;
    EXPECT_TRUE(prepared(c).complete) << strategy;
  }
}

TEST_F(Resume, AnotherTryBeginsWithTheNewestThatTheRunHasSaved) {
  const auto c = config();
  run(c);
  train::Setup setup = prepared(longer(c, checkpoint::step_folder(c.out, 4).string())).setup;
  EXPECT_TRUE(go_on_from_newest(setup).empty());
  EXPECT_EQ(setup.first_step, 6);
  EXPECT_EQ(setup.checkpoint, checkpoint::step_folder(c.out, 6).string());
  // Not with one from before it: that may be of another series.
  remove_tree(checkpoint::step_folder(c.out, 6));
  setup = prepared(longer(c, checkpoint::step_folder(c.out, 4).string())).setup;
  remove_tree(checkpoint::step_folder(c.out, 4));
  go_on_from_newest(setup);
  EXPECT_EQ(setup.first_step, 4);
}

// What a worker reads is what was prepared; everything differs from what a Setup begins with.
TEST(Setup, SurvivesBeingWrittenDown) {
  train::Setup s;
  s.config.model = "cnn";
  s.fields = {{.name = "image", .shape = {1, 8, 8}}, {.name = "label", .type = DType::i64, .below = 10}};
  s.files[data::Part::training] = {"a", "b"};
  s.files[data::Part::test] = {"c"};
  s.checkpoint = "runs/x/checkpoints/step-4";
  s.first_step = 4;
  s.routes = {exchange::route({.name = "dense.weight", .bytes = 4'700'000}, {})};
  s.total_steps = 9;
  s.data_sha256 = "0123";
  s.model_sha256 = "4567";
  s.chosen = {"local_aggregation"};
  s.restarts = {{"rank 1 was killed", 4}};
  const nlohmann::json written = s;
  for (const auto& [key, value] : written.items())
    EXPECT_NE(value, nlohmann::json(train::Setup{})[key]) << key;
  const auto read = nlohmann::json::parse(written.dump()).get<train::Setup>();
  EXPECT_EQ(nlohmann::json(read), written);
  EXPECT_EQ(read.fields.at(1).below, 10);
}

}  // namespace
}  // namespace tutti::train
