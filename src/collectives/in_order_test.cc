#include "collectives/in_order.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collectives/shards_fixture.h"
#include "net/inproc.h"

namespace tutti::collectives {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);

// What a rank holds at first, and room for what its schedule needs.
struct Places {
  Places(const ShardTree& tree, Rank rank, int world, std::size_t count, int needed) {
    memory.resize(static_cast<std::size_t>(needed), std::vector<float>(count));
    for (const auto& [node, place] : tree.held_of(tree.run_of(to_int(rank), world))) {
      memory.at(static_cast<std::size_t>(place)) = shard_sum(tree, node, count);
    }
    for (auto& m : memory) buffers.push_back({m.data(), count, DType::f32});
  }
  std::vector<std::vector<float>> memory;
  std::vector<Buffer> buffers;
};

bool has_rounds(Algorithm algorithm) {
  return info_of(algorithm).runs != AlgorithmInfo::Runs::across_hosts;
}

std::vector<Algorithm> all_with(Operation operation) {
  std::vector<Algorithm> all;
  for (std::size_t a = 0; a < algorithms().size(); ++a) {
    const auto algorithm = static_cast<Algorithm>(a);
    if (has_rounds(algorithm) && has(algorithm, operation)) all.push_back(algorithm);
  }
  return all;
}

std::string name_of_case(const ::testing::TestParamInfo<Algorithm>& i) {
  std::string name(name_of(i.param));
  std::erase(name, '-');
  return name;
}

class InOrder : public ::testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Algorithms, InOrder, ::testing::ValuesIn(all_with(Operation::all_reduce)),
                         name_of_case);

TEST_P(InOrder, EveryAlgorithmGivesTheDefinedBitsInEveryWorld) {
  for (const int shards : {8, 13}) {
    const ShardTree tree(shards);
    for (const std::size_t count : {1UL, 7UL, 1000UL}) {
      const auto expected = shard_sum(tree, tree.root(), count);
      for (int world = 1; world <= 8; ++world) {
        net::run_as_threads(net::Medium::memory, world, kTimeout, [&](net::Transport& t) {
          const auto schedule =
              make_ordered_schedule(Operation::all_reduce, GetParam(), t.rank(), world, count, tree);
          Places places(tree, t.rank(), world, count, schedule.places);
          run_in_order(t, schedule, places.buffers, {"all-reduce"});
          EXPECT_EQ(std::memcmp(places.memory[0].data(), expected.data(), count * sizeof(float)), 0)
              << shards << " shards, rank " << to_int(t.rank()) << " of " << world << ", " << count;
        });
      }
    }
  }
}

class InOrderToARoot : public ::testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Algorithms, InOrderToARoot, ::testing::ValuesIn(all_with(Operation::reduce)),
                         name_of_case);

TEST_P(InOrderToARoot, GetsTheDefinedBits) {
  const ShardTree tree(8);
  const auto expected = shard_sum(tree, tree.root(), 100);
  for (int world = 2; world <= 5; ++world) {
    for (int root = 0; root < world; ++root) {
      net::run_as_threads(net::Medium::sockets, world, kTimeout, [&](net::Transport& t) {
        const auto schedule =
            make_ordered_schedule(Operation::reduce, GetParam(), t.rank(), world, 100, tree, Rank{root});
        Places places(tree, t.rank(), world, 100, schedule.places);
        run_in_order(t, schedule, places.buffers, {"reduce"});
        if (t.rank() == Rank{root}) {
          EXPECT_EQ(std::memcmp(places.memory[0].data(), expected.data(), 100 * sizeof(float)), 0) << world;
        }
      });
    }
  }
}

// Or the tests above could not fail.
TEST(InOrderData, ShowsAnotherOrder) {
  const ShardTree tree(8);
  std::vector<float> one_by_one(1000);
  for (int shard = 0; shard < 8; ++shard) {
    for (std::size_t i = 0; i < one_by_one.size(); ++i) one_by_one[i] += shard_gradient(shard, i);
  }
  EXPECT_NE(one_by_one, shard_sum(tree, tree.root(), one_by_one.size()));
}

// Where an algorithm adds up in the order of the tree anyway, it sends no more than it would.
TEST(InOrderCost, IsNothingWhereTheOrderIsTheAlgorithmsOwn) {
  const ShardTree tree(8);
  const auto sent = [&](Algorithm algorithm, int world) {
    return elements_sent(make_ordered_schedule(Operation::all_reduce, algorithm, Rank{1}, world, 800, tree));
  };
  const auto plain = [&](Algorithm algorithm, int world) {
    return elements_sent(make_schedule(Operation::all_reduce, algorithm, Rank{1}, world, 800));
  };
  for (const int world : {2, 4, 8}) {
    EXPECT_EQ(sent(Algorithm::direct, world), plain(Algorithm::direct, world));
    EXPECT_EQ(sent(Algorithm::tree, world), plain(Algorithm::tree, world));
    EXPECT_EQ(sent(Algorithm::recursive_doubling, world), plain(Algorithm::recursive_doubling, world));
  }
  EXPECT_EQ(sent(Algorithm::ring, 2), plain(Algorithm::ring, 2));
  EXPECT_GT(sent(Algorithm::ring, 4), plain(Algorithm::ring, 4));
}

}  // namespace
}  // namespace tutti::collectives
