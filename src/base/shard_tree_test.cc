#include "base/shard_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace tutti {
namespace {

using Held = ShardTree::Held;

// The sum of a subtree in words, as the definition has it; empty where there are no shards.
std::string defined(int shards, ShardNode node) {
  if (node.first >= shards) return "";
  if (node.size == 1) return std::to_string(node.first);
  const auto left = defined(shards, {node.first, node.size / 2});
  const auto right = defined(shards, {node.first + node.size / 2, node.size / 2});
  return right.empty() ? left : "(" + left + "+" + right + ")";
}

// The number that a sum in words begins with.
int first_of(const std::string& sum) {
  return std::stoi(sum.substr(sum.find_first_not_of('(')));
}

// Additions carried out in words, the smaller shards first.
void add_up(const std::vector<ShardTree::Addition>& additions, std::vector<std::string>& places) {
  for (const auto& [into, from] : additions) {
    auto& a = places.at(static_cast<std::size_t>(into));
    const auto& b = places.at(static_cast<std::size_t>(from));
    a = first_of(a) < first_of(b) ? "(" + a + "+" + b + ")" : "(" + b + "+" + a + ")";
  }
}

TEST(ShardTree, RunsOfWorkersAreAllShardsOnce) {
  for (int shards = 1; shards <= 20; ++shards) {
    for (int workers = 1; workers <= shards; ++workers) {
      int next = 0;
      for (int w = 0; w < workers; ++w) {
        const auto run = ShardTree(shards).run_of(w, workers);
        EXPECT_EQ(run.first, next);
        EXPECT_TRUE(run.count() == shards / workers || run.count() == shards / workers + 1);
        next = run.last;
      }
      EXPECT_EQ(next, shards);
    }
  }
}

TEST(ShardTree, ThreeWorkersHoldWhatThePictureSays) {
  const ShardTree tree(8);
  EXPECT_EQ(tree.held_of(tree.run_of(0, 3)), (std::vector<Held>{{{0, 2}, 1}, {{2, 1}, 0}}));
  EXPECT_EQ(tree.held_of(tree.run_of(1, 3)), (std::vector<Held>{{{3, 1}, 1}, {{4, 2}, 0}}));
  EXPECT_EQ(tree.held_of(tree.run_of(2, 3)), (std::vector<Held>{{{6, 2}, 0}}));
  EXPECT_EQ(tree.places_of(3), 2);
  EXPECT_EQ(tree.places_of(4), 1);
}

// Whoever holds the shards, and in whatever order what they hold meets: the sum is the defined one.
TEST(ShardTree, SumIsTheDefinedOneWhoeverAddsUp) {
  std::mt19937 random(5);
  for (int shards = 1; shards <= 17; ++shards) {
    const ShardTree tree(shards);
    const std::string root = defined(shards, tree.root());
    for (int workers = 1; workers <= shards; ++workers) {
      std::vector<std::string> places;
      std::vector<std::vector<Held>> parts;
      for (int w = 0; w < workers; ++w) {
        // A worker adds up its own shards one after another.
        std::vector<Held> own;
        const auto run = tree.run_of(w, workers);
        for (int s = run.first; s < run.last; ++s) {
          own.push_back({{s, 1}, static_cast<int>(places.size())});
          places.push_back(std::to_string(s));
          add_up(tree.join(own), places);
        }
        ASSERT_EQ(own.size(), tree.held_of(run).size());
        for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i].node, tree.held_of(run)[i].node);
        parts.push_back(own);
      }
      std::ranges::shuffle(parts, random);
      std::vector<Held> all;
      for (const auto& part : parts) {
        all.insert(all.end(), part.begin(), part.end());
        add_up(tree.join(all), places);
      }
      ASSERT_EQ(all.size(), 1U) << shards << " shards, " << workers << " workers";
      EXPECT_EQ(all[0].node, tree.root());
      EXPECT_EQ(places.at(static_cast<std::size_t>(all[0].place)), root);
    }
  }
}

TEST(ShardTree, WhatComesOneByOneLeavesTheNodesThatAreHeld) {
  for (int shards = 1; shards <= 17; ++shards) {
    const ShardTree tree(shards);
    for (int workers = 1; workers <= shards; ++workers) {
      for (int w = 0; w < workers; ++w) {
        const ShardRun run = tree.run_of(w, workers);
        std::vector<ShardNode> waiting;
        int additions = 0;
        for (int s = run.first; s < run.last; ++s) {
          tree.take_in(waiting, {s, 1}, [&](std::size_t brother) {
            EXPECT_EQ(brother + 1, waiting.size());
            ++additions;
          });
        }
        std::vector<ShardNode> held;
        for (const auto& h : tree.held_of(run)) held.push_back(h.node);
        EXPECT_EQ(waiting, held) << shards << " shards, " << workers << " workers, " << w;
        EXPECT_EQ(additions, run.count() - static_cast<int>(held.size()));
      }
    }
  }
}

}  // namespace
}  // namespace tutti
