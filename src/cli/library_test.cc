// The same training by `tutti train --reproducible` and by a program on the library, which computes shards of
// the same samples: the same bits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "data/loader.h"
#include "library/library_fixture.h"
#include "models/model.h"
#include "optim/schedule.h"
#include "train/as_tensors.h"
#include "train/open_data.h"
#include "train/plan.h"
#include "train/run_fixture.h"
#include "tutti/distributed.h"

namespace tutti {
namespace {

struct Case {
  std::string model;
  std::string optimizer;
  int sessions = 3;
};

// Steps of 24 samples in 8 shards, of which the loss drops some activations.
config::TrainConfig config_of(const Case& of, const std::string& out) {
  config::TrainConfig c;
  c.model = of.model;
  c.data = "synthetic";
  if (of.model == "mobilenetv2") c.image_size = 32;
  if (of.model == "lstm-lm") {
    c.vocabulary = 400;
    c.embedding = 8;
    c.hidden = 16;
    c.unroll = 4;
    c.sampled = 40;
  } else {
    c.classes = 10;
  }
  c.optimizer = of.optimizer;
  c.lr = 0.01;
  c.strategy = "ring";
  c.workers = 2;
  c.global_batch = 24;
  c.steps = 4;
  c.reproducible = true;
  c.shards = 8;
  c.memory_format = "contiguous";
  c.no_evaluate = true;
  c.out = out;
  return c;
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const config::TrainConfig& c,
                                                      torch::nn::Module& model) {
  using torch::optim::AdamOptions;
  using torch::optim::SGDOptions;
  if (c.optimizer == "adam") {
    return std::make_unique<torch::optim::Adam>(model.parameters(), AdamOptions(c.lr));
  }
  return std::make_unique<torch::optim::SGD>(model.parameters(),
                                             SGDOptions(c.lr).momentum(c.optimizer == "momentum" ? 0.9 : 0));
}

// Ranks are threads here, and torch has one generator.
std::mutex drawing;

std::shared_ptr<models::Model> first_model(const config::TrainConfig& c) {
  const std::scoped_lock alone(drawing);
  torch::manual_seed(c.seed);
  return models::make_model(c.model, train::options_of(c));
}

// As a program of a user's does it, that reads the samples which the run reads.
void train_by_library(const train::Setup& setup, Session& session, torch::nn::Module& trained,
                      const std::function<torch::Tensor(const models::Batch&)>& loss) {
  const auto& c = setup.config;
  const auto samples = train::open_samples(setup, data::Part::training);
  const auto plan = train::make_plan(c, samples->size());
  const auto optimizer = optimizer_of(c, trained);
  Distributed training(session, trained, *optimizer,
                       {.strategy = "ps-sync", .shards = c.shards, .seed = c.seed});
  const auto first = static_cast<std::size_t>(training.shards().first());
  data::Loader loader(*samples, {.seed = c.seed,
                                 .batch = static_cast<std::size_t>(plan.part),
                                 .parts = static_cast<std::size_t>(c.shards),
                                 .first_part = first,
                                 .last_part = first + static_cast<std::size_t>(training.shards().count()),
                                 .end_step = static_cast<std::uint64_t>(plan.total_steps)});
  while (loader.has_next()) {
    const data::Batch batch = loader.next();
    const auto all = train::as_tensors(batch.fields, train::fields_of(setup), batch.count, false);
    for (auto& group : optimizer->param_groups()) {
      group.options().set_lr(optim::rate(plan.schedule, training.steps()));
    }
    {
      const std::scoped_lock alone(drawing);
      std::int64_t done = 0;
      for (const int shard : training.shards()) {
        const auto count = static_cast<std::int64_t>(batch.parts[static_cast<std::size_t>(shard) - first]);
        models::Batch of_shard;
        for (const auto& field : all) of_shard.push_back(field.narrow(0, done, count));
        done += count;
        const double weight = static_cast<double>(count) * c.shards / static_cast<double>(batch.global_count);
        if (count > 0) (loss(of_shard) * weight).backward();
      }
    }
    training.step();
  }
  training.finish();
}

void expect_same(const checkpoint::SafetensorsFile& saved, const std::string& name,
                 const torch::Tensor& tensor) {
  const auto values = tensor.detach().contiguous();
  const auto bytes = saved.at(name).bytes;
  ASSERT_EQ(bytes.size(), values.nbytes()) << name;
  EXPECT_EQ(std::memcmp(bytes.data(), values.data_ptr(), bytes.size()), 0) << name;
}

// A part of the matrix; TUTTI_MATRIX=all tries every network and optimizer at every number of sessions.
std::vector<Case> cases() {
  std::vector<Case> all = {{"mnist-cnn", "momentum"},
                           {"mnist-cnn", "adam"},
                           {"mobilenetv2", "momentum"},
                           {"rnn-mnist", "adam", 5},
                           {"lstm-lm", "sgd", 4}};
  if (std::getenv("TUTTI_MATRIX") == nullptr) return all;  // NOLINT(concurrency-mt-unsafe): nobody sets it
  for (const char* model : {"mnist-cnn", "mobilenetv2", "rnn-mnist", "deepfam", "lstm-lm"}) {
    for (const char* optimizer : {"sgd", "adam"}) {
      for (const int sessions : {1, 2, 3, 4, 5, 8}) all.push_back({model, optimizer, sessions});
    }
  }
  return all;
}

TEST(Library, TrainsWithTheBitsOfTheProgram) {
  for (const Case& of : cases()) {
    SCOPED_TRACE(fmt::format("{} by {} in {} sessions", of.model, of.optimizer, of.sessions));
    const ScratchFolder folder;
    const auto setup = train::prepare(config_of(of, folder.path() / "run"), {}, std::nullopt, "now").setup;
    train::fixture::run(setup);
    const auto saved = checkpoint::load(checkpoint::step_folder(setup.config.out, setup.config.steps));
    library::run_sessions(of.sessions, net::Medium::memory, [&](Session& session) {
      const auto model = first_model(setup.config);
      model->train();
      train_by_library(setup, session, *model, [&](const auto& batch) { return model->loss(batch); });
      for (const auto& item : model->named_parameters()) expect_same(saved.model, item.key(), item.value());
      for (const auto& item : model->named_buffers()) expect_same(saved.model, item.key(), item.value());
    });
  }
}

}  // namespace
}  // namespace tutti
