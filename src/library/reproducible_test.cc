// Trainings whose steps are cut into shards: no bit depends on who computes them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "base/scratch_folder.h"
#include "library/library_fixture.h"
#include "library/sharded_fixture.h"
#include "tutti/distributed.h"

namespace tutti::library {
namespace {

// Ranks are threads here, and torch has one generator.
std::mutex drawing;

struct Trial {
  int world = 1;
  DistributedOptions options = {};
  MakeNetwork network = dropping;
  MakeOptimizer optimizer = adam;
  int first = 0;
  int last = kSteps;
  std::string save_to = {};  // in the end
  int passes = 1;            // backward passes of a shard
  int unusable_step = -1;    // in which a shard's gradients are NaN
  bool on_hosts = false;     // two ranks on each
};

// The model, which is that of all ranks.
torch::Tensor train(Trial run) {
  run.options.shards = kShards;
  if (run.options.bucket_bytes == DistributedOptions{}.bucket_bytes) run.options.bucket_bytes = 64;
  std::vector<torch::Tensor> results(static_cast<std::size_t>(run.world));
  const auto body = [&](Session& session) {
    const auto net = run.network(1.0 + session.rank() + run.first);
    const auto optimizer = run.optimizer(*net);
    Distributed training(session, *net, *optimizer, run.options);
    EXPECT_EQ(training.steps(), run.first);
    for (int step = run.first; step < run.last; ++step) {
      optimizer->zero_grad();
      {
        const std::scoped_lock alone(drawing);
        for (const int shard : training.shards()) {
          for (int pass = 0; samples_of(step, shard) > 0 && pass < run.passes; ++pass) {
            std::optional<NoSync> held;
            if (pass + 1 < run.passes) held.emplace(training);
            const double nan = step == run.unusable_step && shard == 3 ? NAN : 1;
            (net->loss(step, shard) * nan * weight_of(step, shard) / run.passes).backward();
          }
        }
      }
      training.step();
    }
    if (!run.save_to.empty()) training.save(run.save_to);
    training.finish();
    results[static_cast<std::size_t>(session.rank())] = everything(*net);
  };
  std::vector<int> hosts;
  for (int r = 0; r < run.world; ++r) hosts.push_back(r / 2);
  run.on_hosts ? run_sessions_on(hosts, body) : run_sessions(run.world, net::Medium::memory, body);
  for (const auto& r : results) EXPECT_TRUE(torch::equal(r, results[0])) << "ranks differ";
  return results[0];
}

// What shards [first, first + size) bring, added up as base/shard_tree.h says; of a power of two, and those
// from kShards on do not exist.
std::vector<torch::Tensor> tree_sum(const std::vector<std::vector<torch::Tensor>>& by_shard, int first,
                                    int size) {
  if (size == 1) return by_shard[static_cast<std::size_t>(first)];
  auto left = tree_sum(by_shard, first, size / 2);
  if (first + size / 2 >= kShards) return left;
  const auto right = tree_sum(by_shard, first + size / 2, size / 2);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = left[i] + right[i];
  return left;
}

// The same training in plain torch.
torch::Tensor train_plainly(const MakeNetwork& network, const MakeOptimizer& make_optimizer) {
  const auto net = network(1.0);
  const auto optimizer = make_optimizer(*net);
  const auto values = [](const std::vector<torch::Tensor>& tensors) {
    std::vector<torch::Tensor> copies;
    for (const auto& t : tensors) copies.push_back(t.detach().clone());
    return copies;
  };
  const auto assign = [](std::vector<torch::Tensor> to, const std::vector<torch::Tensor>& from) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
  };
  for (int step = 0; step < kSteps; ++step) {
    const auto buffers = values(net->buffers());
    std::vector<std::vector<torch::Tensor>> gradients;
    std::vector<std::vector<torch::Tensor>> statistics;
    for (int shard = 0; shard < kShards; ++shard) {
      assign(net->buffers(), buffers);
      for (auto& p : net->parameters()) p.mutable_grad() = torch::zeros_like(p);
      torch::manual_seed(mix_seed({1, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(shard)}));
      if (samples_of(step, shard) > 0) (net->loss(step, shard) * weight_of(step, shard)).backward();
      gradients.emplace_back();
      for (const auto& p : net->parameters()) gradients.back().push_back(p.grad().clone());
      statistics.emplace_back();
      for (const auto& b : net->buffers()) statistics.back().push_back(b.to(torch::kFloat64, false, true));
    }
    const auto sum = tree_sum(gradients, 0, 8);
    for (std::size_t i = 0; i < sum.size(); ++i) net->parameters()[i].mutable_grad() = sum[i] / kShards;
    auto means = tree_sum(statistics, 0, 8);
    for (std::size_t i = 0; i < means.size(); ++i) {
      const bool counted = !net->buffers()[i].is_floating_point();
      means[i] = counted ? buffers[i] + 1 : means[i] / kShards;  // some shard has samples
    }
    assign(net->buffers(), means);
    optimizer->step();
  }
  return everything(*net);
}

struct Case {
  std::string name;
  MakeNetwork network;
  MakeOptimizer optimizer;
};

class Reproducible : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Networks, Reproducible,
                         testing::Values(Case{"droppingSgd", dropping, sgd},
                                         Case{"droppingAdam", dropping, adam},
                                         Case{"droppingOwn", dropping, amsgrad},
                                         Case{"readingSgd", reading, sgd}, Case{"readingAdam", reading, adam},
                                         Case{"readingOwn", reading, amsgrad}),
                         [](const auto& i) { return i.param.name; });

const std::vector<DistributedOptions> kWays = {
    {.strategy = "ring"},
    {.strategy = "allreduce"},
    {.strategy = "reduce-broadcast"},
    {.strategy = "ps-sync", .servers = 1},
    {.strategy = "ps-sync", .servers = 2},
    {.strategy = "hybrid"},
};

// At every number of processes that it fits.
void expect_everywhere(const torch::Tensor& expected, Trial run) {
  for (run.world = std::max(1, run.options.servers); run.world <= 4; ++run.world) {
    EXPECT_TRUE(torch::equal(train(run), expected))
        << run.options.strategy << " at " << run.world << " processes";
  }
}

TEST_P(Reproducible, SameBitsAtEveryNumberOfProcessesUnderEveryStrategy) {
  const auto& [name, network, optimizer] = GetParam();
  const auto alone = train({.options = {.strategy = "local"}, .network = network, .optimizer = optimizer});
  EXPECT_TRUE(torch::allclose(alone, train_plainly(network, optimizer), 1e-4, 1e-6));
  for (const auto& options : kWays) {
    if (options.strategy == "hybrid" && name.ends_with("Own")) continue;  // its servers update
    expect_everywhere(alone, {.options = options, .network = network, .optimizer = optimizer});
  }
}

TEST(ReproducibleTraining, HasTheSameBitsOnSeveralHosts) {
  for (const auto& network : {dropping, reading}) {
    const auto alone = train({.options = {.strategy = "local"}, .network = network});
    for (const auto& options : kWays) {
      EXPECT_TRUE(
          torch::equal(train({.world = 4, .options = options, .network = network, .on_hosts = true}), alone))
          << options.strategy;
    }
  }
}

// An optimizer that is called as it is computes as in a plain loop: so do shards, to the bit.
TEST(ReproducibleTraining, IsAPlainLoopThatAddsUpInTheOrderOfTheTree) {
  for (const auto& network : {dropping, reading}) {
    EXPECT_TRUE(torch::equal(train({.world = 3, .network = network, .optimizer = amsgrad}),
                             train_plainly(network, amsgrad)));
  }
}

// A table's gradient has several parts then, which rows would add up in another order than whole tables.
TEST(ReproducibleTraining, HasTheSameBitsWithSeveralBackwardPassesAShard) {
  for (const auto& network : {dropping, reading, reading_twice}) {
    for (const int passes : {1, 3}) {
      Trial run{.options = {.strategy = "local"}, .network = network, .optimizer = sgd, .passes = passes};
      const auto alone = train(run);
      for (const auto& options : kWays) {
        run.options = options;
        expect_everywhere(alone, run);
      }
    }
  }
}

TEST(ReproducibleTraining, HasTheSameBitsWhereGradientsAreClippedAndStepsSkipped) {
  for (const double clip_norm : {0.0, 0.05}) {
    for (const auto& network : {dropping, reading}) {
      Trial run{.options = {.strategy = "local", .clip_norm = clip_norm, .skip_nonfinite = true},
                .network = network,
                .unusable_step = 1};
      const auto alone = train(run);
      EXPECT_TRUE(alone.isfinite().all().item<bool>());
      for (const auto& way : kWays) {
        run.options.strategy = way.strategy;
        run.options.servers = way.servers;
        expect_everywhere(alone, run);
      }
    }
  }
}

TEST(ReproducibleTraining, GoesOnWithTheSameBitsInOtherProcessesAndByAnotherStrategy) {
  struct Half {
    int world;
    DistributedOptions options;
  };
  const std::vector<std::pair<Half, Half>> cases = {
      {{2, {.strategy = "ring"}}, {3, {.strategy = "ps-sync", .servers = 2}}},
      {{4, {.strategy = "ps-sync"}}, {1, {.strategy = "local"}}},
      {{3, {.strategy = "hybrid"}}, {2, {.strategy = "reduce-broadcast"}}},
      {{1, {.strategy = "local"}}, {4, {.strategy = "hybrid", .servers = 1}}},
  };
  for (const auto& network : {dropping, reading}) {
    for (const auto& optimizer : {sgd, adam}) {
      const auto undisturbed = train({.network = network, .optimizer = optimizer});
      for (auto [then, now] : cases) {
        const ScratchFolder folder;
        Trial run{.world = then.world,
                  .options = then.options,
                  .network = network,
                  .optimizer = optimizer,
                  .last = 3,
                  .save_to = folder.path()};
        train(run);
        run.world = now.world;
        run.options = now.options;
        run.options.resume = std::exchange(run.save_to, "");
        run.first = std::exchange(run.last, kSteps);
        EXPECT_TRUE(torch::equal(train(run), undisturbed))
            << then.options.strategy << ", then " << now.options.strategy;
      }
    }
  }
}

TEST(ReproducibleTraining, DrawsByItsSeed) {
  const DistributedOptions other{.seed = 2};
  EXPECT_FALSE(torch::equal(train({.options = other}), train({})));
  EXPECT_TRUE(torch::equal(train({.options = other, .network = reading}), train({.network = reading})));
}

TEST(ReproducibleTraining, ComputesWithOneThreadTheShardsThatItTellsBeforeTheLoop) {
  run_sessions(4, net::Medium::memory, [](Session& session) {
    Reading net(1.0);
    const auto optimizer = adam(net);
    Distributed training(session, net, *optimizer, {.shards = kShards});
    EXPECT_EQ(torch::get_num_threads(), 1);
    std::vector<int> told;
    for (int i = 0; i < training.shards().count(); ++i) told.push_back(training.shards().first() + i);
    auto all = torch::zeros({kShards});
    std::vector<int> taken;
    for (const int shard : training.shards()) {
      taken.push_back(shard);
      all[shard] += 1;
    }
    training.step();
    EXPECT_EQ(taken, told);
    session.all_reduce(all, ReduceOp::sum);
    EXPECT_TRUE(torch::equal(all, torch::ones({kShards})));
  });
}

// Gradients that are thrown away are nobody's.
TEST(ReproducibleTraining, WhatIsThrownAwayOutsideOfTheLoopChangesNothing) {
  std::vector<torch::Tensor> results;
  for (const bool throws_away : {false, true}) {
    run_sessions(1, net::Medium::memory, [&](Session& session) {
      Reading net(1.0);
      const auto optimizer = adam(net);
      Distributed training(session, net, *optimizer, {.shards = kShards});
      for (int step = 0; step < 2; ++step) {
        if (throws_away) {
          const auto held = training.no_sync();
          net.loss(7, 4).backward();
          for (auto& p : net.parameters()) p.mutable_grad().reset();
        }
        for (const int shard : training.shards()) {
          if (shard > 0) net.loss(step, shard).backward();
        }
        training.step();
      }
      training.finish();
      results.push_back(everything(net));
    });
  }
  EXPECT_TRUE(torch::equal(results[0], results[1]));
}

TEST(ReproducibleTraining, GoesOnWithItsOwnShardsAndSeedOnly) {
  const ScratchFolder folder;
  train({.world = 2, .last = 1, .save_to = folder.path()});
  // Statistics are the same everywhere: there is one file of them.
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "checkpoints" / "step-1" / "replica-1.safetensors"));
  expect_refused("it is of 6 shards a step, here are 8", {.resume = folder.path(), .shards = 8});
  expect_refused("it is of 6 shards a step, here are 0", {.resume = folder.path()});
  expect_refused("its shards draw by seed 1, here it is 2",
                 {.resume = folder.path(), .shards = kShards, .seed = 2});
}

}  // namespace
}  // namespace tutti::library
