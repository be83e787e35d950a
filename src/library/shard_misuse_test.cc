// What a program can do wrong with shards is refused, with the reason.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "library/library_fixture.h"
#include "library/sharded_fixture.h"
#include "tutti/distributed.h"
#include "tutti/strategy.h"

namespace tutti::library {
namespace {

TEST(ShardMisuse, WhatDoesNotFitIsRefusedWithTheReason) {
  static const bool added = [] {
    add_strategy("own order", "of a test", [](Training&) { return std::unique_ptr<tutti::Strategy>(); });
    return true;
  }();
  EXPECT_TRUE(added);
  for (const std::string strategy : {"ps-async", "ps-ssp", "hogwild"}) {
    expect_refused("do not keep step", {.strategy = strategy, .shards = 4});
  }
  for (const std::string strategy : {"easgd", "local-sgd"}) {
    expect_refused("its replicas differ", {.strategy = strategy, .shards = 4});
  }
  expect_refused("an order of its own", {.strategy = "own order", .shards = 4});
  expect_refused("1 shards for 2 processes", {.shards = 1});
  expect_refused("shards is -1", {.shards = -1});
  expect_refused("no shards with uneven inputs", {.uneven_inputs = true, .shards = 4});
  expect_refused("no shards with a hook", {.hook = bf16_hook(), .shards = 4});
  expect_refused("4 shards of seed 2",
                 [](int rank) { return DistributedOptions{.shards = 4, .seed = rank == 0 ? 1U : 2U}; });
  expect_refused("5 shards", [](int rank) { return DistributedOptions{.shards = 4 + rank}; });
}

// A program that is wrong, alone and as two: its training has failed then.
void expect_misuse(const std::string& why, const std::function<void(Distributed&, Reading&)>& program) {
  for (const int world : {1, 2}) {
    run_sessions(world, net::Medium::memory, [&](Session& session) {
      Reading net(1.0);
      const auto optimizer = adam(net);
      Distributed training(session, net, *optimizer, {.strategy = "ring", .shards = kShards});
      expect_throw<std::exception>(why, [&] { program(training, net); });
      EXPECT_THROW(training.step(), RunError);
    });
  }
}

void take_all(Distributed& training) {
  for ([[maybe_unused]] const int shard : training.shards()) continue;
}

TEST(ShardMisuse, ShardsThatAreLeftOutAreNamed) {
  expect_misuse("step() was called before shard ", [](Distributed& training, Reading&) { training.step(); });
  expect_misuse("step() was called before shard ", [](Distributed& training, Reading& net) {
    for (const int shard : training.shards()) {
      net.loss(0, shard).backward();
      if (shard % 3 == 2) break;
    }
    training.step();
  });
}

TEST(ShardMisuse, ALoopIsNotBegunTwice) {
  expect_misuse("the one before it was left in shard ", [](Distributed& training, Reading&) {
    for ([[maybe_unused]] const int shard : training.shards()) break;
    take_all(training);
  });
  expect_misuse("a second loop over shards()", [](Distributed& training, Reading&) {
    take_all(training);
    take_all(training);
  });
}

TEST(ShardMisuse, ABackwardPassOutsideOfTheLoopIsRefused) {
  const std::string why = "has got a gradient outside of a loop over shards()";
  expect_misuse(why, [](Distributed&, Reading& net) { net.loss(0, 0).backward(); });
  expect_misuse(why, [](Distributed& training, Reading& net) {
    take_all(training);
    net.loss(0, 0).backward();
  });
}

// Also where nothing has left yet.
TEST(ShardMisuse, ASecondGradientInAShardIsRefusedByName) {
  for (const int at : {0, 2}) {
    expect_misuse("out.bias has got a second gradient in one shard",
                  [&](Distributed& training, Reading& net) {
                    for (const int shard : training.shards()) {
                      net.loss(0, shard).backward();
                      if (shard % 3 == at) net.loss(0, shard).backward();
                    }
                  });
  }
}

TEST(ShardMisuse, NothingIsSavedOrFinishedInTheLoop) {
  expect_misuse("finish() was called between", [](Distributed& training, Reading&) {
    for ([[maybe_unused]] const int shard : training.shards()) training.finish();
  });
  const ScratchFolder folder;
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    Reading net(1.0);
    const auto optimizer = adam(net);
    Distributed training(session, net, *optimizer, {.shards = kShards});
    for (const int shard : training.shards()) {
      net.loss(0, shard).backward();
      expect_throw<ConfigError>("save() was called between", [&] { training.save(folder.path()); });
    }
    training.step();
    training.save(folder.path());
  });
}

TEST(ShardMisuse, ThereIsNoLoopWithoutShardsOrAfterTheEnd) {
  run_sessions(1, net::Medium::memory, [](Session& session) {
    Reading net(1.0);
    const auto optimizer = adam(net);
    Distributed training(session, net, *optimizer);
    expect_throw<ConfigError>("DistributedOptions::shards is 0", [&] { training.shards(); });
  });
  expect_misuse("begins after finish()", [](Distributed& training, Reading&) {
    training.finish();
    take_all(training);
  });
}

}  // namespace
}  // namespace tutti::library
