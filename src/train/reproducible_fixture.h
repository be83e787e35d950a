// Runs with --reproducible, each by a way of its own, that must end with the same bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "base/file.h"
#include "base/random.h"
#include "base/scratch_folder.h"
#include "data/bars_fixture.h"
#include "train/run_fixture.h"

namespace tutti::train::fixture {

struct Trial {
  std::string name;
  std::string model;
  std::string data = "mnist";
  bool computes_much = false;
  std::int64_t global_batch = 16;
  std::int64_t image_size = 0;
  double lr = 0.01;
};

struct TrialCase {
  Trial workload;
  std::string optimizer;
};

// A way to train: what must not change a bit.
struct TrainingWay {
  std::string strategy;
  int workers = 1;
  int servers = 0;
  std::string algorithm = "auto";
};

// Published as study C's data are, and shorter: deepfam's time goes with their length.
inline void write_sequences(const std::filesystem::path& folder) {
  constexpr std::string_view kAminoAcids = "ACDEFGHIKLMNPQRSTVWY";
  std::filesystem::create_directories(folder);
  SplitMix64 random(86);
  std::string lines;
  for (int i = 0; i < 600; ++i) {
    lines += fmt::format("{}\t", random.below(86));
    for (std::uint64_t letters = 20 + random.below(40); letters > 0; --letters)
      lines += kAminoAcids[random.below(kAminoAcids.size())];
    lines += '\n';
  }
  for (const char* part : {"train.txt", "test.txt"}) write_file_atomically(folder / part, lines);
}

inline std::string text_of(const TrainingWay& way) {
  return fmt::format("{} with {} workers, {} servers, {}", way.strategy, way.workers, way.servers,
                     way.algorithm);
}

class ReproducibleRun : public ::testing::Test {
 protected:
  ReproducibleRun() {
    data::fixture::write_bars(folder_.path() / "data", "mnist", 2000, 100);
    write_sequences(folder_.path() / "data" / "gpcr");
  }

  config::TrainConfig config(const TrialCase& c, const TrainingWay& way) const {
    config::TrainConfig config;
    config.model = c.workload.model;
    config.data = c.workload.data;
    config.reproducible = true;
    config.optimizer = c.optimizer;
    config.lr = c.optimizer == "adam" ? 0.001 : c.workload.lr;
    config.global_batch = c.workload.global_batch;
    config.image_size = c.workload.image_size;
    if (c.workload.model == "mobilenetv2-cifar") config.classes = 2;
    if (c.workload.model == "lstm-lm") {
      // Large enough that messages cost hybrid less than an all-reduce of the tables.
      config.vocabulary = 8000;
      config.embedding = 8;
      config.hidden = 16;
      config.unroll = 4;
      config.sampled = 40;
    }
    config.steps = 30;
    config.strategy = way.strategy;
    config.workers = way.workers;
    config.servers = way.servers;
    config.algorithm = way.algorithm;
    config.bucket_bytes = 64 << 10;
    config.no_evaluate = true;
    config.no_checkpoint = true;
    config.overwrite = true;
    config.out = (folder_.path() / "run").string();
    return config;
  }

  nlohmann::json run(const config::TrainConfig& c, net::Medium medium = net::Medium::memory) const {
    return fixture::run(prepare(c, {{folder_.path() / "data"}, {}}, 2, "now").setup, {}, medium).summary;
  }

  ScratchFolder folder_;
};

inline void expect_routes_to_servers(const nlohmann::json& summary) {
  const auto& routes = summary.at("routes");
  EXPECT_TRUE(std::ranges::any_of(routes, [](const auto& r) { return r.at("route") == "servers"; }))
      << routes.dump(1);
}

}  // namespace tutti::train::fixture
