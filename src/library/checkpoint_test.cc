// Trainings that are saved and go on in other processes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "library/checkpoint_fixture.h"

namespace tutti::library {
namespace {

namespace fs = std::filesystem;
using fixture::adam_without_table;
using fixture::amsgrad;
using fixture::damage;
using fixture::everything;
using fixture::Rich;
using fixture::rich_loss;
using fixture::train;
using fixture::Trial;
using torch::optim::AdamOptions;

DistributedOptions from(DistributedOptions options, const fs::path& folder) {
  options.resume = folder.string();
  return options;
}

void expect_same(const std::vector<torch::Tensor>& some, const std::vector<torch::Tensor>& others) {
  ASSERT_EQ(some.size(), others.size());
  for (std::size_t r = 0; r < some.size(); ++r) EXPECT_TRUE(torch::equal(some[r], others[r])) << "rank " << r;
}

const std::vector<int> kHosts = {0, 0, 1, 1};

struct Case {
  std::string name;
  Trial run;
};

class Saved : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Strategies, Saved,
    testing::Values(
        Case{"localAdam", {.world = 1, .options = {.strategy = "local"}}},
        Case{"ringAdam", {.options = {.strategy = "ring"}}},
        Case{"allreduceAdam", {.world = 3, .options = {.strategy = "allreduce", .bucket_bytes = 64}}},
        Case{"reducebroadcastAdam", {.options = {.strategy = "reduce-broadcast"}}},
        Case{"pssyncAdam", {.world = 3, .options = {.strategy = "ps-sync", .servers = 2}}},
        Case{"pssyncMeanAdam", {.options = {.strategy = "ps-sync", .clip_norm = 0.1}}},
        Case{"hybridAdam", {.options = {.strategy = "hybrid"}}},
        Case{"easgdAdam", {.options = {.strategy = "easgd", .sync_every = 3}}},
        Case{"localsgdAdam", {.world = 3, .options = {.strategy = "local-sgd", .sync_every = 3}}},
        Case{"localOwn", {.world = 1, .options = {.strategy = "local"}, .make = amsgrad}},
        Case{"ringOwn", {.options = {.strategy = "ring"}, .make = amsgrad}},
        Case{"allreduceOwn", {.options = {.strategy = "allreduce"}, .make = amsgrad}},
        Case{"reducebroadcastOwn", {.options = {.strategy = "reduce-broadcast"}, .make = amsgrad}},
        Case{"pssyncOwn", {.options = {.strategy = "ps-sync"}, .make = amsgrad}},
        Case{"easgdOwn", {.options = {.strategy = "easgd", .sync_every = 3}, .make = amsgrad}},
        Case{"localsgdOwn", {.options = {.strategy = "local-sgd", .sync_every = 3}, .make = amsgrad}},
        Case{"allreduceOnHosts", {.world = 4, .options = {.strategy = "allreduce"}, .hosts = kHosts}},
        Case{"pssyncRowsOnHosts", {.world = 4, .options = {.strategy = "ps-sync"}, .hosts = kHosts}},
        Case{"pssyncOnHosts",
             {.world = 4,
              .options = {.strategy = "ps-sync", .servers = 1},
              .make = adam_without_table,
              .hosts = kHosts}},
        Case{"pssyncMeanOnHosts",
             {.world = 4,
              .options = {.strategy = "ps-sync", .clip_norm = 0.1},
              .make = adam_without_table,
              .hosts = kHosts}}),
    [](const auto& i) { return i.param.name; });

TEST_P(Saved, TrainingGoesOnWithTheSameBits) {
  const ScratchFolder folder;
  Trial run = GetParam().run;
  const auto undisturbed = train(run);
  run.folder = folder.path();
  run.save_after = {4};
  expect_same(train(run), undisturbed);
  run.options.resume = folder.path();
  run.save_after = {};
  run.first = 4;
  expect_same(train(run), undisturbed);
}

// As the program's say it, so that `ckpt diff` names what is another.
TEST(SavedTraining, SaysWhatComputedIt) {
  const ScratchFolder folder;
  Trial run{.world = 1, .options = {.strategy = "local"}};
  run.folder = folder.path();
  run.save_after = {4};
  train(run);
  const auto arithmetic = checkpoint::load(checkpoint::step_folder(folder.path(), 4)).meta.at("arithmetic");
  std::vector<std::string> keys;
  for (const auto& [key, value] : arithmetic.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"device", "instructions", "kernels", "libtorch", "openblas",
                                            "precision", "processor", "threads"}));
  EXPECT_EQ(arithmetic["threads"], torch::get_num_threads());
}

TEST(SavedWithoutStep, TrainingGoesOnWithItsCount) {
  for (const std::string strategy : {"ps-async", "ps-ssp", "hogwild"}) {
    const ScratchFolder folder;
    const DistributedOptions options{.strategy = strategy};
    train({.options = options, .last = 4, .save_after = {4}, .folder = folder.path()});
    EXPECT_EQ(checkpoint::latest(folder.path()).value().step, 4) << strategy;
    double losses[2] = {0, 0};
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Rich net(3.0);
      const auto adam = flat_adam(net);
      Distributed training(session, *net, *adam, from(options, folder.path()));
      EXPECT_EQ(training.steps(), 4);
      net->eval();
      if (session.rank() == 0) losses[0] = rich_loss(net, 0, 0).item<double>();
      net->train();
      session.barrier();
      for (int s = 0; s < 40; ++s) {
        adam->zero_grad();
        rich_loss(net, 0, session.rank()).backward();
        training.step();
      }
      training.finish();
      EXPECT_EQ(training.steps(), 44);
      net->eval();
      if (session.rank() == 0) losses[1] = rich_loss(net, 0, 0).item<double>();
    });
    EXPECT_LT(losses[1], losses[0]) << strategy;
  }
}

TEST(SavedTraining, GoesOnWithAnotherNumberOfProcesses) {
  const ScratchFolder folder;
  const auto two = train({.last = 4, .save_after = {4}, .folder = folder.path()});
  std::vector<torch::Tensor> restored(3);
  run_sessions(3, net::Medium::memory, [&](Session& session) {
    Rich net(5.0);
    const auto adam = flat_adam(net);
    Distributed training(session, *net, *adam, {.strategy = "ps-sync", .resume = folder.path()});
    EXPECT_EQ(training.steps(), 4);
    restored[static_cast<std::size_t>(session.rank())] = everything(net);
    rich_loss(net, 4, session.rank()).backward();
    training.step();
    const auto all = session.all_gather(net->hidden->weight.detach());
    EXPECT_TRUE(torch::equal(all[0], all[2]));
  });
  expect_same({restored[0], restored[1]}, two);
  EXPECT_TRUE(torch::equal(restored[2], restored[0])) << "who was not there has rank 0's buffers";
}

TEST(SavedTraining, MayHaveFinished) {
  const ScratchFolder folder;
  for (const std::string strategy : {"ps-sync", "easgd"}) {
    std::vector<torch::Tensor> finished(2);
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Rich net(1.0);
      const auto adam = flat_adam(net);
      Distributed training(session, *net, *adam, {.strategy = strategy});
      rich_loss(net, 0, session.rank()).backward();
      training.step();
      training.finish();
      training.save(folder.path());
      finished[static_cast<std::size_t>(session.rank())] = everything(net);
    });
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Rich net(2.0);
      const auto adam = flat_adam(net);
      const Distributed training(session, *net, *adam, {.strategy = strategy, .resume = folder.path()});
      EXPECT_EQ(training.steps(), 1);
      EXPECT_TRUE(torch::equal(everything(net), finished[static_cast<std::size_t>(session.rank())]));
    });
  }
}

TEST(SavedTraining, LaterCheckpointsOfAnotherAreSetAside) {
  const ScratchFolder folder;
  train({.save_after = {4, 8}, .folder = folder.path()});
  const auto step4 = checkpoint::step_folder(folder.path(), 4);
  train({.options = {.resume = step4}, .first = 4, .last = 6, .save_after = {6}, .folder = folder.path()});
  std::vector<std::int64_t> steps;
  for (const auto& s : checkpoint::list(folder.path())) steps.push_back(s.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{4, 6}));
  EXPECT_TRUE(fs::exists(folder.path() / "checkpoints" / "step-8.superseded"));
}

TEST(SavedTraining, WhatAKilledSaveLeavesIsNoCheckpoint) {
  const ScratchFolder folder;
  train({.last = 4, .save_after = {4}, .folder = folder.path()});
  const fs::path checkpoints = folder.path() / "checkpoints";
  fs::create_directories(checkpoints / "step-8.replicas.partial");
  fs::copy(checkpoints / "step-4", checkpoints / "step-8.partial");
  fs::remove(checkpoints / "step-8.partial" / "manifest.json");
  train({.options = {.resume = folder.path()}, .first = 4, .save_after = {8}, .folder = folder.path()});
  EXPECT_EQ(checkpoint::load(checkpoints / "step-8").step, 8);
  EXPECT_EQ(std::distance(fs::directory_iterator(checkpoints), {}), 2);
}

TEST(SavedTraining, GoesOnFromTheNewestThatIsWhole) {
  const ScratchFolder folder;
  train({.save_after = {4, 8}, .folder = folder.path()});
  damage(checkpoint::step_folder(folder.path(), 8) / "optimizer.safetensors");
  testing::internal::CaptureStderr();
  train({.options = {.resume = folder.path()}, .first = 4, .last = 5});
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("step-8/optimizer.safetensors"), std::string::npos) << warning;
  EXPECT_NE(warning.find("going on from step 4"), std::string::npos) << warning;
}

// What is kept of an optimizer that is called as it is leaves the user's settings alone.
TEST(SavedTraining, LearningRateIsTheUsers) {
  const ScratchFolder folder;
  train({.make = amsgrad, .last = 4, .save_after = {4}, .folder = folder.path()});
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    Rich net(2.0);
    torch::optim::Adam adam(net->parameters(), AdamOptions(0.5).amsgrad(true));
    const Distributed training(session, *net, adam, {.resume = folder.path()});
    EXPECT_EQ(adam.param_groups()[0].options().get_lr(), 0.5);
    EXPECT_FALSE(adam.state().empty());
  });
}

}  // namespace
}  // namespace tutti::library
