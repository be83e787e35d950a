#include "collectives/choose.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tutti::collectives {
namespace {

constexpr Operation kOperations[] = {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                                     Operation::broadcast,  Operation::reduce,         Operation::barrier};

TEST(Choose, SharedMemoryIsAlwaysDirect) {
  for (const Operation operation : kOperations) {
    for (const std::uint64_t bytes : {0U, 64U, 1U << 30}) {
      const Choice choice = choose(operation, bytes, 8, Medium::memory);
      EXPECT_EQ(choice.algorithm, Algorithm::direct);
      EXPECT_NE(choice.reason.find("shared memory"), std::string::npos);
    }
  }
}

TEST(Choose, OneAndTwoRanksAreDirectOnANetwork) {
  for (const Operation operation : kOperations) {
    EXPECT_EQ(choose(operation, 1U << 26, 1, Medium::network).algorithm, Algorithm::direct);
    EXPECT_EQ(choose(operation, 1U << 26, 2, Medium::network).algorithm, Algorithm::direct);
  }
}

TEST(Choose, LargeBuffersGoRound) {
  for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::broadcast}) {
    EXPECT_EQ(choose(operation, 1U << 26, 8, Medium::network).algorithm, Algorithm::ring);
  }
  EXPECT_EQ(choose(Operation::all_reduce, 1U << 26, 8, Medium::network).reason,
            "64.0 MiB over 8 ranks is bandwidth-bound: least traffic, neighbours only");
}

TEST(Choose, SmallBuffersTakeFewRounds) {
  EXPECT_EQ(choose(Operation::all_reduce, 4097, 8, Medium::network).algorithm, Algorithm::halving_doubling);
  EXPECT_EQ(choose(Operation::all_reduce, 4097, 8, Medium::network).reason,
            "4.0 KiB over 8 ranks is latency-bound: log2 N rounds each way");
  EXPECT_EQ(choose(Operation::all_reduce, 4096, 8, Medium::network).reason,
            "4.0 KiB over 8 ranks is latency-bound: log2 N rounds");
  EXPECT_EQ(choose(Operation::broadcast, 4096, 8, Medium::network).algorithm, Algorithm::tree);
  EXPECT_EQ(choose(Operation::barrier, 0, 8, Medium::network).algorithm, Algorithm::halving_doubling);
  EXPECT_EQ(choose(Operation::reduce, 4096, 8, Medium::network).reason,
            "4.0 KiB over 8 ranks is latency-bound: log2 N rounds each way");
}

TEST(Choose, WhatIsSmallGrowsWithTheWorld) {
  EXPECT_EQ(choose(Operation::all_reduce, 512 * 1024, 8, Medium::network).algorithm, Algorithm::ring);
  EXPECT_EQ(choose(Operation::all_reduce, 512 * 1024, 64, Medium::network).algorithm,
            Algorithm::halving_doubling);
}

TEST(ParseAlgorithm, ReadsWhatNameOfWrites) {
  for (const Algorithm a :
       {Algorithm::ring, Algorithm::direct, Algorithm::halving_doubling, Algorithm::tree}) {
    EXPECT_EQ(parse_algorithm(name_of(a)), a);
  }
  EXPECT_EQ(parse_algorithm("auto"), std::nullopt);
}

TEST(ParseAlgorithm, ListsTheNamesWhenItRefuses) {
  try {
    parse_algorithm("rign");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(),
                 "no algorithm is called 'rign'; there are auto, ring, direct, halving-doubling, tree");
  }
}

}  // namespace
}  // namespace tutti::collectives
