#include "train/replica_check.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "base/error.h"
#include "collectives/native.h"
#include "net/inproc.h"

namespace tutti::train {
namespace {

using Digests = std::vector<std::uint64_t>;

const std::vector<std::string> kTensors = {"conv.weight", "conv.bias", "fc.weight"};

TEST(DifferingReplicas, NobodyIsNamedWhereAllAreTheSame) {
  EXPECT_FALSE(differing_replicas(kTensors, {{1, 2, 3}, {1, 2, 3}, {1, 2, 3}}));
  EXPECT_FALSE(differing_replicas(kTensors, {{1, 2, 3}}));
  EXPECT_FALSE(differing_replicas({}, {{}, {}}));
}

TEST(DifferingReplicas, TheMinorityIsNamedWithTheFirstTensorThatDiffers) {
  EXPECT_EQ(differing_replicas(kTensors, {{1, 2, 3}, {1, 4, 5}, {1, 2, 3}}),
            "the replicas differ: rank 1 is not as the other 2, first in conv.bias, whose digest is "
            "0000000000000002 on ranks 0, 2, 0000000000000004 on rank 1");
  // Rank 0 is nobody special.
  EXPECT_EQ(differing_replicas(kTensors, {{1, 2, 4}, {1, 2, 3}, {1, 2, 3}}),
            "the replicas differ: rank 0 is not as the other 2, first in fc.weight, whose digest is "
            "0000000000000004 on rank 0, 0000000000000003 on ranks 1, 2");
}

TEST(DifferingReplicas, SeveralMayBeInTheMinorityEachInItsOwnWay) {
  const auto said = differing_replicas(kTensors, {{1, 2, 3}, {9, 2, 3}, {1, 2, 3}, {1, 2, 8}, {1, 2, 3}});
  ASSERT_TRUE(said);
  EXPECT_NE(said->find("ranks 1, 3 are not as the other 3, first in conv.weight"), std::string::npos)
      << *said;
}

TEST(DifferingReplicas, WhereNoSideHasMoreWorkersEveryoneIsTold) {
  EXPECT_EQ(differing_replicas(kTensors, {{1, 2, 3}, {1, 7, 3}}),
            "the replicas differ, and no side has more workers: first in conv.bias, whose digest is "
            "0000000000000002 on rank 0, 0000000000000007 on rank 1");
  const auto four = differing_replicas(kTensors, {{1, 2, 3}, {1, 7, 3}, {1, 7, 3}, {1, 2, 3}});
  ASSERT_TRUE(four);
  EXPECT_NE(four->find("0000000000000002 on ranks 0, 3, 0000000000000007 on ranks 1, 2"), std::string::npos);
}

TEST(ReplicaCheck, AlsoComparesWhatIsKeptBesideTheParametersAndEndsWhenAllAreReady) {
  std::atomic<int> ready = 0;
  net::run_as_threads(net::Medium::memory, 3, std::chrono::seconds(60), [&](net::Transport& transport) {
    collectives::NativeEngine workers(transport);
    torch::nn::Linear layer(2, 2);
    {
      const torch::NoGradGuard no_grad;
      for (auto& p : layer->parameters()) p.fill_(1);
    }
    grad::Buckets buckets(*layer, 1 << 10, [&](std::size_t bytes) { return workers.allocate(bytes); });
    observe::Trace trace(false, workers.rank());
    ReplicaCheck check(workers, 1, trace);
    const auto mean = torch::ones({4});
    EXPECT_NO_THROW(check.after_step(1, buckets, {{"norm.running_mean", mean}}));
    if (workers.rank() == Rank{1}) mean[2] = 5;
    try {
      check.after_step(2, buckets, {{"norm.running_mean", mean}}, [&] { ++ready; });
      ADD_FAILURE() << "nobody has noticed";
    } catch (const RunError& e) {
      const std::string said = e.what();
      EXPECT_NE(said.find("rank 1 is not as the other 2, first in norm.running_mean"), std::string::npos)
          << said;
      EXPECT_EQ(ready, 3);
    }
  });
}

// Whoever escaped would leave the others waiting at the barrier until their time-out.
TEST(ReplicaCheck, WhateverFailsBeforeTheEndIsAddedToWhatIsSaid) {
  net::run_as_threads(net::Medium::memory, 2, std::chrono::seconds(60), [](net::Transport& transport) {
    collectives::NativeEngine workers(transport);
    torch::nn::Linear layer(1, 1);
    {
      const torch::NoGradGuard no_grad;
      for (auto& p : layer->parameters()) p.fill_(to_int(workers.rank()));
    }
    grad::Buckets buckets(*layer, 1 << 10, [&](std::size_t bytes) { return workers.allocate(bytes); });
    observe::Trace trace(false, workers.rank());
    ReplicaCheck check(workers, 1, trace);
    const auto fail = [&] {
      if (workers.rank() == Rank{1}) throw std::length_error("no room");  // not of the errors of this program
    };
    try {
      check.after_step(1, buckets, {}, fail);
      ADD_FAILURE() << "nobody has noticed";
    } catch (const RunError& e) {
      const std::string said = e.what();
      EXPECT_NE(said.find("the replicas differ"), std::string::npos) << said;
      EXPECT_EQ(said.ends_with("; no room"), workers.rank() == Rank{1}) << said;
    }
  });
}

// Rank 1 is killed over its checkpoint.
TEST(ReplicaCheck, SaysWhatItHasFoundThoughSomebodyIsLost) {
  constexpr int kKilled = 9;
  net::run_as_threads(net::Medium::sockets, 3, std::chrono::seconds(60), [](net::Transport& transport) {
    collectives::NativeEngine workers(transport);
    torch::nn::Linear layer(1, 1);
    {
      const torch::NoGradGuard no_grad;
      for (auto& p : layer->parameters()) p.fill_(workers.rank() == Rank{2} ? 2 : 1);
    }
    grad::Buckets buckets(*layer, 1 << 10, [&](std::size_t bytes) { return workers.allocate(bytes); });
    observe::Trace trace(false, workers.rank());
    ReplicaCheck check(workers, 1, trace);
    try {
      check.after_step(7, buckets, {}, [&] {
        if (workers.rank() == Rank{1}) throw kKilled;
      });
      ADD_FAILURE() << "nobody has noticed";
    } catch (const RunError& e) {
      const std::string said = e.what();
      EXPECT_TRUE(said.starts_with("step 7: the replicas differ: rank 2 is not as the other 2")) << said;
      EXPECT_NE(said.find("; rank "), std::string::npos) << said;
    } catch (int) {  // no exception that anybody could expect
      EXPECT_EQ(workers.rank(), Rank{1});
    }
  });
}

TEST(CheckReplicas, StrategiesWhoseReplicasNeedNotBeTheSameRefuseIt) {
  config::TrainConfig c;
  c.workers = 2;
  for (const auto& strategy : exchange::all_strategies()) {
    c.strategy = strategy.name;
    c.check_replicas = 0;
    EXPECT_NO_THROW(require_same_replicas(strategy, c)) << strategy.name;
    c.check_replicas = 5;
    if (strategy.asynchronous || strategy.replicas_differ) {
      EXPECT_THROW(require_same_replicas(strategy, c), ConfigError) << strategy.name;
    } else {
      EXPECT_NO_THROW(require_same_replicas(strategy, c)) << strategy.name;
    }
  }
  c.strategy = "ps-sync";
  c.backup_workers = 1;
  EXPECT_THROW(require_same_replicas(exchange::find_strategy("ps-sync"), c), ConfigError);
}

// What is laid out in buckets is found there, tensor by tensor.
TEST(ParameterDigests, ChangeWithOneBitOfTheirOwnTensorAlone) {
  const torch::nn::Sequential net(torch::nn::Linear(7, 5), torch::nn::Linear(5, 3));
  std::vector<std::vector<std::byte>> memory;
  grad::Buckets buckets(*net, 64, [&](std::size_t bytes) { return std::span(memory.emplace_back(bytes)); });
  const auto before = parameter_digests(buckets);
  ASSERT_EQ(before.size(), 4U);
  const torch::NoGradGuard no_grad;
  net->parameters()[2].view(-1)[4] += 1;
  auto after = parameter_digests(buckets);
  EXPECT_NE(after[2], before[2]);
  after[2] = before[2];
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace tutti::train
