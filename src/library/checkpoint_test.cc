// Trainings that are saved and go on in other processes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "library/library_fixture.h"
#include "library/optimizer_state.h"
#include "tutti/distributed.h"

namespace tutti::library {
namespace {

namespace fs = std::filesystem;
namespace nn = torch::nn;
using torch::optim::AdamOptions;

// Something of all that a module can have: a table, a statistic of the batches, a parameter that is frozen,
// and buffers of other types and layouts.
struct RichImpl : nn::Module {
  explicit RichImpl(double first, int width = 5) {
    table = register_module("table", nn::Embedding(20, 4));
    hidden = register_module("hidden", nn::Linear(4, width));
    norm = register_module("norm", nn::BatchNorm1d(width));
    out = register_module("out", nn::Linear(width, 3));
    frozen = register_module("frozen", nn::Linear(3, 3));
    register_buffer("mask", torch::full({3}, -INFINITY));
    register_buffer("seen", torch::zeros({3}, torch::kBool));
    register_buffer("turned", torch::zeros({2, 3}, torch::kFloat64).t());
    const torch::NoGradGuard no_grad;
    for (auto& p : parameters()) p.copy_(torch::linspace(-first, first, p.numel()).sin().view_as(p));
    for (auto& p : frozen->parameters()) p.set_requires_grad(false);
  }
  torch::Tensor forward(const torch::Tensor& words) {
    const torch::NoGradGuard no_grad;
    named_buffers()["seen"][0] = true;
    named_buffers()["turned"] += words.sum().item<double>();
    const torch::AutoGradMode with_grad(true);
    return frozen(out(torch::tanh(norm(hidden(table(words).mean(1))))));
  }
  nn::Embedding table{nullptr};
  nn::Linear hidden{nullptr};
  nn::BatchNorm1d norm{nullptr};
  nn::Linear out{nullptr};
  nn::Linear frozen{nullptr};
};
TORCH_MODULE(Rich);

// All numbers of a module, whatever their type.
torch::Tensor everything(Rich& net) {
  std::vector<torch::Tensor> parts;
  for (const auto& p : net->parameters()) parts.push_back(p.detach().reshape({-1}).to(torch::kFloat64));
  for (const auto& b : net->buffers()) parts.push_back(b.reshape({-1}).to(torch::kFloat64));
  return torch::cat(parts);
}

torch::Tensor rich_loss(Rich& net, int step, int rank) {
  const auto words = (torch::arange(24).view({6, 4}) * (step + 2) + rank * 7) % 20;
  const auto target = torch::sin(torch::arange(18, torch::kFloat32).view({6, 3}) + words.sum());
  return (net->forward(words) - target).square().mean();
}

using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(Rich&)>;

std::unique_ptr<torch::optim::Optimizer> flat_adam(Rich& net) {
  return std::make_unique<torch::optim::Adam>(net->parameters(), AdamOptions(0.01));
}
// One that is called as it is.
std::unique_ptr<torch::optim::Optimizer> amsgrad(Rich& net) {
  return std::make_unique<torch::optim::Adam>(net->parameters(), AdamOptions(0.01).amsgrad(true));
}

// Its table is nobody's then, so that the processes of a host can push as one.
std::unique_ptr<torch::optim::Optimizer> adam_without_table(Rich& net) {
  std::vector<torch::Tensor> parameters;
  for (const auto& p : net->named_parameters()) {
    if (p.key() != "table.weight") parameters.push_back(p.value());
  }
  return std::make_unique<torch::optim::Adam>(parameters, AdamOptions(0.01));
}

struct Trial {
  int world = 2;
  DistributedOptions options = {};
  Make make = flat_adam;
  std::vector<int> hosts = {};  // of `world` ranks, if it is known
  int first = 0;
  int last = 8;
  std::vector<int> save_after = {};
  fs::path folder = {};
};

// Every rank's model in the end.
std::vector<torch::Tensor> train(const Trial& run) {
  std::vector<torch::Tensor> results(static_cast<std::size_t>(run.world));
  const auto body = [&](Session& session) {
    Rich net(1.0 + session.rank() + run.first);
    const auto optimizer = run.make(net);
    Distributed training(session, *net, *optimizer, run.options);
    EXPECT_EQ(training.steps(), run.first);
    for (int s = run.first; s < run.last; ++s) {
      optimizer->zero_grad();
      rich_loss(net, s, session.rank()).backward();
      training.step();
      if (std::ranges::count(run.save_after, s + 1) > 0) training.save(run.folder);
    }
    training.finish();
    EXPECT_EQ(training.steps(), run.last);
    results[static_cast<std::size_t>(session.rank())] = everything(net);
  };
  run.hosts.empty() ? run_sessions(run.world, net::Medium::memory, body) : run_sessions_on(run.hosts, body);
  return results;
}

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

void damage(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream.put('\x55');
  ASSERT_TRUE(stream.good());
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

// Every process says no, in the same words but for who noticed.
template <typename Error>
void expect_no_resume(const std::string& why, const DistributedOptions& options, const Make& make = flat_adam,
                      int world = 2, int width = 5) {
  std::atomic<int> refused = 0;
  run_sessions(world, net::Medium::memory, [&](Session& session) {
    Rich net(1.0, width);
    const auto optimizer = make(net);
    try {
      const Distributed training(session, *net, *optimizer, options);
      ADD_FAILURE() << why << ": was accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
      ++refused;
    }
  });
  EXPECT_EQ(refused, world);
}

TEST(NotResumed, WhereThereIsNoCheckpoint) {
  const ScratchFolder folder;
  const auto missing = folder.path() / "elsewhere";
  expect_no_resume<DataError>(missing.string() + ": no such folder", {.resume = missing});
  expect_no_resume<DataError>("no finished checkpoint there",
                              {.strategy = "ps-sync", .resume = folder.path()});
  checkpoint::save(folder.path(), 3, {}, {}, {{"config", "a trainer's"}});
  expect_no_resume<DataError>("was not written by tutti::Distributed::save()", {.resume = folder.path()});
}

TEST(NotResumed, FromAnotherModelOrOptimizer) {
  const ScratchFolder folder;
  train({.last = 1, .save_after = {1}, .folder = folder.path()});
  const DistributedOptions options{.resume = folder.path()};
  expect_no_resume<DataError>("tensor hidden.weight is float32 [5, 4], the model's is float32 [6, 4]",
                              options, flat_adam, 2, 6);
  expect_no_resume<ConfigError>("the optimizer there is adam, here it is sgd", options, [](Rich& net) {
    return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.1));
  });
  expect_no_resume<ConfigError>("here it is torch::optim::Adam, called as it is: it has amsgrad", options,
                                amsgrad);
  expect_no_resume<DataError>("extra.weight", options, [](Rich& net) {
    net->register_module("extra", nn::Linear(2, 2));
    return flat_adam(net);
  });
  const ScratchFolder larger;
  const auto with_more = [](Rich& net) {
    net->register_buffer("more", torch::zeros({2}));
    return flat_adam(net);
  };
  train({.make = with_more, .last = 1, .save_after = {1}, .folder = larger.path()});
  expect_no_resume<DataError>("model.safetensors: the model has no tensor \"more\"",
                              {.resume = larger.path()});
}

TEST(NotResumed, WhenAnOptimizerHasItsParametersInAnotherOrder) {
  const ScratchFolder folder;
  train({.make = amsgrad, .last = 1, .save_after = {1}, .folder = folder.path()});
  expect_no_resume<ConfigError>(
      "the optimizer there has the parameters", {.resume = folder.path()}, [](Rich& net) {
        auto parameters = net->parameters();
        std::swap(parameters[2], parameters[3]);
        return std::make_unique<torch::optim::Adam>(parameters, AdamOptions(0.01).amsgrad(true));
      });
}

TEST(NotResumed, WhenAFileIsDamaged) {
  const ScratchFolder folder;
  train({.last = 1, .save_after = {1}, .folder = folder.path()});
  const auto step = checkpoint::step_folder(folder.path(), 1);
  damage(step / "replica-1.safetensors");
  expect_no_resume<DataError>("replica-1.safetensors", {.resume = step});
  expect_no_resume<DataError>("no checkpoint there is whole", {.resume = folder.path()});
}

TEST(NotResumed, WhenReplicasDifferAndThereAreOthers) {
  const ScratchFolder folder;
  train({.options = {.strategy = "easgd"}, .last = 1, .save_after = {1}, .folder = folder.path()});
  expect_no_resume<ConfigError>("it is of 2 processes, here are 3",
                                {.strategy = "easgd", .resume = folder.path()}, flat_adam, 3);
  expect_no_resume<ConfigError>("it is of strategy easgd, here it is ring",
                                {.strategy = "ring", .resume = folder.path()});
}

// Every process throws, and the training goes on as if nothing had been asked.
template <typename Error>
void expect_not_saved(const std::string& why, const Trial& run,
                      const std::function<void(Rich&, int rank)>& before = {}) {
  std::atomic<int> refused = 0;
  run_sessions(run.world, net::Medium::memory, [&](Session& session) {
    Rich net(1.0);
    const auto optimizer = run.make(net);
    Distributed training(session, *net, *optimizer, run.options);
    rich_loss(net, 0, session.rank()).backward();
    training.step();
    if (before) before(net, session.rank());
    try {
      training.save(run.folder);
      ADD_FAILURE() << why << ": was saved";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
      ++refused;
    }
    rich_loss(net, 1, session.rank()).backward();
    training.step();
    training.finish();
  });
  EXPECT_EQ(refused, run.world);
}

TEST(NotSaved, WhereAFolderCannotBeWritten) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "checkpoints") << "a file";
  expect_not_saved<RunError>("cannot save", {.folder = scratch.path()});
  expect_not_saved<RunError>("cannot save", {.options = {.strategy = "ps-sync"}, .folder = scratch.path()});
  expect_not_saved<RunError>("cannot save", {.world = 1, .folder = scratch.path()});
}

TEST(NotSaved, WithANumberThatIsNone) {
  const ScratchFolder scratch;
  expect_not_saved<NonFinite>("norm.running_mean holds nan (first at element 2)", {.folder = scratch.path()},
                              [](Rich& net, int rank) {
                                if (rank == 1) net->norm->running_mean[2] = NAN;
                              });
  expect_not_saved<NonFinite>("mask holds nan", {.folder = scratch.path()}, [](Rich& net, int rank) {
    if (rank == 0) net->named_buffers()["mask"][0] = NAN;
  });
  // Rank 1 has written its part before it knew.
  EXPECT_TRUE(fs::is_empty(scratch.path() / "checkpoints"));
}

struct Forgetful final : torch::optim::Adam {
  explicit Forgetful(std::vector<torch::Tensor> p) : Adam(std::move(p), AdamOptions(0.01)) {}
  void save(torch::serialize::OutputArchive&) const override {}
};

TEST(NotSaved, WhenAnOptimizerDoesNotWriteItsState) {
  const ScratchFolder scratch;
  expect_not_saved<ConfigError>(
      "Forgetful has state and does not write it",
      {.make = [](Rich& net) { return std::make_unique<Forgetful>(net->parameters()); },
       .folder = scratch.path()});
}

TEST(NotSaved, InTheMiddleOfAStepOrIntoTwoFolders) {
  const ScratchFolder scratch;
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    Rich net(1.0);
    const auto adam = flat_adam(net);
    Distributed training(session, *net, *adam);
    EXPECT_THROW(training.save(scratch.path() / std::to_string(session.rank())), ConfigError);
    if (session.rank() == 1) rich_loss(net, 0, 1).backward();
    EXPECT_THROW(training.save(scratch.path()), ConfigError);
    if (session.rank() == 0) rich_loss(net, 0, 0).backward();
    training.step();
    training.save(scratch.path());
  });
  EXPECT_EQ(checkpoint::latest(scratch.path()).value().step, 1);
}

TEST(NotSaved, WhenAProcessHasRunOutOfSamples) {
  const ScratchFolder scratch;
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    Rich net(1.0);
    const auto adam = flat_adam(net);
    Distributed training(session, *net, *adam, {.uneven_inputs = true});
    for (int s = 0; s < 3; ++s) {
      if (s == 1) training.save(scratch.path());
      if (s == 2 && session.rank() == 1) break;
      rich_loss(net, s, session.rank()).backward();
      training.step();
    }
    if (session.rank() == 0) {
      EXPECT_THROW(training.save(scratch.path()), ConfigError);
    }
    training.finish();
    training.save(scratch.path());
  });
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    Rich net(1.0);
    const auto adam = flat_adam(net);
    const Distributed training(session, *net, *adam, {.resume = scratch.path()});
    EXPECT_EQ(training.steps(), session.rank() == 0 ? 3 : 2);
  });
  EXPECT_EQ(checkpoint::latest(scratch.path()).value().step, 3);
}

TEST(OptimizerState, ANumberThatIsNoneIsFound) {
  const auto weight = torch::ones({2}).requires_grad_();
  torch::optim::Adam adam(std::vector<torch::Tensor>{weight}, AdamOptions(0.1));
  weight.mutable_grad() = torch::ones({2});
  adam.step();
  EXPECT_FALSE(first_nonfinite(serialised(adam)));
  weight.mutable_grad() = torch::full({2}, NAN);
  adam.step();
  EXPECT_NE(first_nonfinite(serialised(adam)).value().find("exp_avg"), std::string::npos);
}

TEST(OptimizerState, BytesComeBackAndDamageIsSaid) {
  for (const std::string bytes : {"", "a", "four", "nine byte"}) {
    const auto packed = pack(bytes);
    const std::span view(static_cast<const std::byte*>(packed.data_ptr()), packed.nbytes());
    EXPECT_EQ(unpack(view, "file"), bytes);
  }
  const auto packed = pack("nine byte");
  EXPECT_THROW(unpack({static_cast<const std::byte*>(packed.data_ptr()), 16}, "file"), DataError);
  EXPECT_THROW(unpack({static_cast<const std::byte*>(packed.data_ptr()), 4}, "file"), DataError);
  const auto weight = torch::ones({2}).requires_grad_();
  torch::optim::Adam adam(std::vector<torch::Tensor>{weight}, AdamOptions(0.1));
  EXPECT_THROW(deserialise(adam, "no archive", "file"), DataError);
}

}  // namespace
}  // namespace tutti::library
