#include "collectives/choose.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tutti::collectives {
namespace {

constexpr Operation kOperations[] = {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                                     Operation::broadcast,  Operation::reduce,         Operation::barrier};

Choice of_sum(Operation operation, std::uint64_t bytes, int world, Path path) {
  return choose({operation, ReduceOp::average, bytes, world, path});
}

TEST(Choose, InSharedMemoryEveryoneReadsWhatItNeeds) {
  for (const Operation operation : kOperations) {
    const bool for_all = operation == Operation::all_reduce || operation == Operation::barrier;
    for (const std::uint64_t bytes : {0U, 1024U, 1025U, 1U << 30}) {
      const Choice choice = of_sum(operation, bytes, 8, Path::in_place);
      const auto best = bytes * 8 <= 8192 ? Algorithm::one_shot : Algorithm::one_pass;
      EXPECT_EQ(choice.algorithm, for_all ? best : Algorithm::direct) << bytes;
      EXPECT_NE(choice.reason.find("shared memory"), std::string::npos);
    }
    if (for_all) continue;
    EXPECT_EQ(of_sum(operation, 64, 8, Path::shared_memory).algorithm, Algorithm::direct);
  }
}

TEST(Choose, TwoRanksSwapWhatTheyAddUpAndAreDirectElse) {
  for (const Path path : {Path::network, Path::shared_memory}) {
    for (const Operation operation : kOperations) {
      const bool for_all = operation == Operation::all_reduce || operation == Operation::barrier;
      EXPECT_EQ(of_sum(operation, 1U << 26, 1, path).algorithm, Algorithm::direct);
      EXPECT_EQ(of_sum(operation, 1U << 26, 2, path).algorithm,
                for_all ? Algorithm::recursive_doubling : Algorithm::direct);
    }
    EXPECT_EQ(choose({Operation::all_reduce, ReduceOp::max, 64, 2, path}).algorithm, Algorithm::direct)
        << "the greatest of -0 and 0 depends on their order";
  }
}

TEST(Choose, LargeBuffersGoRound) {
  for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::broadcast}) {
    EXPECT_EQ(of_sum(operation, 1U << 26, 8, Path::network).algorithm, Algorithm::ring);
  }
  EXPECT_EQ(of_sum(Operation::all_reduce, 1U << 26, 8, Path::network).reason,
            "64.0 MiB over 8 ranks is bandwidth-bound: least traffic, neighbours only");
}

TEST(Choose, SmallBuffersTakeFewRounds) {
  const auto halving = of_sum(Operation::all_reduce, 4097, 8, Path::network);
  EXPECT_EQ(halving.algorithm, Algorithm::halving_doubling);
  EXPECT_EQ(halving.reason, "4.0 KiB over 8 ranks is latency-bound: log2 N rounds each way");
  const auto doubling = of_sum(Operation::all_reduce, 4096, 8, Path::network);
  EXPECT_EQ(doubling.algorithm, Algorithm::recursive_doubling);
  EXPECT_EQ(doubling.reason, "4.0 KiB over 8 ranks is latency-bound: log2 N rounds");
  EXPECT_EQ(choose({Operation::all_reduce, ReduceOp::min, 4096, 8, Path::network}).algorithm,
            Algorithm::halving_doubling);
  EXPECT_EQ(of_sum(Operation::broadcast, 4096, 8, Path::network).algorithm, Algorithm::tree);
  EXPECT_EQ(choose({Operation::barrier, ReduceOp::max, 4, 8, Path::network}).algorithm,
            Algorithm::recursive_doubling);
  EXPECT_EQ(of_sum(Operation::reduce, 4096, 8, Path::network).reason,
            "4.0 KiB over 8 ranks is latency-bound: log2 N rounds each way");
}

TEST(Choose, WhatIsSmallGrowsWithTheWorld) {
  EXPECT_EQ(of_sum(Operation::all_reduce, 512 * 1024, 8, Path::network).algorithm, Algorithm::ring);
  EXPECT_EQ(of_sum(Operation::all_reduce, 512 * 1024, 64, Path::network).algorithm,
            Algorithm::halving_doubling);
}

TEST(Choose, RanksThatShareHostsAddUpInsideThemFirst) {
  for (const std::uint64_t bytes : {64U, 1U << 16, 1U << 26}) {
    const auto choice = choose({Operation::all_reduce, ReduceOp::average, bytes, 4, Path::network, 2});
    EXPECT_EQ(choice.algorithm, Algorithm::hierarchical) << bytes;
    EXPECT_EQ(choice.reason,
              "4 ranks on 2 hosts: each host adds up in shared memory, and sends its sum once");
  }
  EXPECT_EQ(choose({Operation::all_reduce, ReduceOp::max, 64, 4, Path::network, 3}).algorithm,
            Algorithm::hierarchical);
}

TEST(Choose, RanksWithAHostEachOrOnOneHostHaveNoHierarchy) {
  const Call apart{Operation::all_reduce, ReduceOp::average, 1 << 26, 4, Path::network, 4};
  EXPECT_EQ(choose(apart).algorithm, Algorithm::ring);
  const Call one_host{Operation::all_reduce, ReduceOp::average, 1 << 26, 4, Path::network, 1};
  const auto refused = choose(one_host, Algorithm::hierarchical);
  EXPECT_EQ(refused.algorithm, Algorithm::ring);
  EXPECT_NE(refused.reason.find("; hierarchical does not do this"), std::string::npos) << refused.reason;
}

TEST(Choose, OperationsOfOneDirectionGoOverTheNetworkAsEver) {
  for (const Operation operation : kOperations) {
    if (operation == Operation::all_reduce) continue;
    const Call known{operation, ReduceOp::average, 1 << 26, 4, Path::network, 2};
    EXPECT_EQ(choose(known).algorithm, of_sum(operation, 1 << 26, 4, Path::network).algorithm);
    EXPECT_NE(choose(known, Algorithm::hierarchical).algorithm, Algorithm::hierarchical);
  }
}

TEST(Choose, FlatAlgorithmsStayWhatWasAskedForAcrossHosts) {
  const Call call{Operation::all_reduce, ReduceOp::average, 1 << 26, 4, Path::network, 2};
  EXPECT_EQ(choose(call, Algorithm::ring).algorithm, Algorithm::ring);
}

TEST(ParseAlgorithm, ReadsWhatNameOfWrites) {
  for (std::size_t i = 0; i < algorithms().size(); ++i) {
    EXPECT_EQ(parse_algorithm(algorithms()[i].name), static_cast<Algorithm>(i));
  }
  EXPECT_EQ(parse_algorithm("halving-doubling"), Algorithm::halving_doubling);
  EXPECT_EQ(parse_algorithm("auto"), std::nullopt);
}

TEST(ParseAlgorithm, ListsTheNamesWhenItRefuses) {
  try {
    parse_algorithm("rign");
    FAIL();
  } catch (const ConfigError& e) {
    const std::string said = e.what();
    EXPECT_TRUE(said.starts_with("no algorithm is called 'rign'; there are auto, ring, direct, ")) << said;
    for (const AlgorithmInfo& a : algorithms()) EXPECT_NE(said.find(a.name), std::string::npos) << a.name;
  }
}

}  // namespace
}  // namespace tutti::collectives
