// Trainings that cannot be saved, or cannot go on from what is there.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "library/checkpoint_fixture.h"

namespace tutti::library {
namespace {

namespace fs = std::filesystem;
namespace nn = torch::nn;
using fixture::amsgrad;
using fixture::damage;
using fixture::flat_adam;
using fixture::Make;
using fixture::Rich;
using fixture::rich_loss;
using fixture::train;
using fixture::Trial;
using torch::optim::AdamOptions;

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

}  // namespace
}  // namespace tutti::library
