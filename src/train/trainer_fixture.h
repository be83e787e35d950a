// Runs of the whole loop on small data of their own, ranks as threads.
#pragma once

#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "data/bars_fixture.h"
#include "train/run_fixture.h"

namespace tutti::train {

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

}  // namespace tutti::train
