#include "ps/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/random.h"

namespace tutti::ps {
namespace {

TEST(Tables, PartsCoverEveryRowOnceAndGoToAllServers) {
  const std::vector<TableShape> tables = {{"a", 1000, 8}, {"b", 3, 4}};
  const auto partitions = cut_tables(tables, 8, 3);
  std::vector<std::size_t> next(2);
  std::vector<int> held(3);
  std::vector<std::set<std::size_t>> rows(2);
  for (const TablePartition& p : partitions) {
    EXPECT_EQ(p.first_place, next[p.table]);
    EXPECT_EQ(p.width, tables[p.table].width);
    next[p.table] += p.rows;
    for (std::size_t i = 0; i < p.rows; ++i) rows[p.table].insert(p.row_at(p.first_place + i));
    ++held[static_cast<std::size_t>(p.server)];
  }
  EXPECT_EQ(next, (std::vector<std::size_t>{1000, 3}));
  for (std::size_t t = 0; t < 2; ++t) {
    EXPECT_EQ(rows[t].size(), tables[t].rows);
    EXPECT_EQ(*rows[t].rbegin(), tables[t].rows - 1);
  }
  EXPECT_EQ(partitions.size(), 11U);  // a table has no more partitions than rows
  for (const int h : held) EXPECT_GE(h, 3);
}

TEST(Tables, PlaceAndRowAreEachOthersInverse) {
  const std::vector<TableShape> tables = {{"a", 1000, 8}};
  for (const int wanted : {1, 3, 7, 64}) {
    const auto partitions = cut_tables(tables, wanted, 3);
    std::size_t place = 0;
    for (const TablePartition& p : partitions) {
      for (std::size_t i = 0; i < p.rows; ++i, ++place)
        EXPECT_EQ(place_of(p.row_at(place), 1000, partitions.size()), place);
    }
    EXPECT_EQ(place, 1000U);
  }
}

// As the words of a vocabulary that is sorted by frequency.
TEST(Tables, NeighboursAreSharedEvenly) {
  const std::vector<TableShape> tables = {{"words", 100'000, 8}};
  const auto partitions = cut_tables(tables, 4, 4);
  std::vector<int> read(4);
  for (std::size_t row = 0; row < 500; ++row) {
    const auto place = place_of(row, 100'000, 4);
    for (std::size_t p = 0; p < 4; ++p) {
      read[p] += place >= partitions[p].first_place && place < partitions[p].first_place + partitions[p].rows
                     ? 1
                     : 0;
    }
  }
  EXPECT_EQ(read, (std::vector<int>{125, 125, 125, 125}));
}

TEST(Tables, ScatterPutsBackWhatGatherTook) {
  const std::vector<TableShape> tables = {{"a", 10, 2}};
  std::vector<float> table(20);
  std::iota(table.begin(), table.end(), 0.0F);
  std::vector<float> copy(20);
  const auto partitions = cut_tables(tables, 3, 1);
  EXPECT_EQ(gather(table, partitions[1]), (std::vector<float>{2, 3, 8, 9, 14, 15}));
  for (const TablePartition& p : partitions) scatter(gather(table, p), p, copy);
  EXPECT_EQ(copy, table);
}

TEST(Rows, RepeatedRowsAreSummedAndRise) {
  const std::vector<std::uint32_t> rows = {7, 2, 7, 2, 9};
  const std::vector<float> values = {1, 2, 10, 20, 3, 4, 30, 40, 5, 6};
  std::vector<float> sums(7, -1);
  EXPECT_EQ(sum_repeated_rows(rows, values, 2, sums), (std::vector<std::uint32_t>{2, 7, 9}));
  EXPECT_EQ(sums, (std::vector<float>{40, 60, 4, 6, 5, 6, -1}));
  EXPECT_TRUE(sum_repeated_rows({}, {}, 2, {}).empty());
}

TEST(Rows, MeanOverWorkersEqualsADenseMean) {
  constexpr std::size_t kRows = 50;
  constexpr std::size_t kWidth = 3;
  RowMerger merger(kRows, kWidth);
  SplitMix64 random(5);
  for (int round = 0; round < 20; ++round) {
    struct Worker {
      std::vector<std::uint32_t> rows;
      std::vector<float> values;
    };
    std::vector<Worker> workers(4);
    std::vector<float> dense(kRows * kWidth);
    for (auto& w : workers) {
      for (std::uint32_t r = 0; r < kRows; ++r) {
        if (random.below(4) != 0) continue;
        w.rows.push_back(r);
        for (std::size_t k = 0; k < kWidth; ++k) {
          w.values.push_back(static_cast<float>(random.below(64)));
          dense[r * kWidth + k] += w.values.back() / 4;
        }
      }
    }
    std::vector<RowGradients> from;
    for (const auto& w : workers) from.push_back({w.rows, w.values});
    const RowGradients mean = merger.mean(from);
    std::vector<float> spread(kRows * kWidth);
    for (std::size_t i = 0; i < mean.rows.size(); ++i) {
      for (std::size_t k = 0; k < kWidth; ++k)
        spread[mean.rows[i] * kWidth + k] = mean.values[i * kWidth + k];
    }
    EXPECT_EQ(spread, dense);
  }
}

TEST(Partitions, FitFindsTheCostsThatMadeTheTimes) {
  const PartitionCost truth{.b = 0.032, .a = 0.0005, .c = 0.002};
  std::vector<PartitionTrial> trials;
  for (const int p : {1, 2, 4, 8, 16}) trials.push_back({p, truth.at(p)});
  const auto fit = fit_partition_cost(trials);
  EXPECT_NEAR(fit.b, truth.b, 1e-9);
  EXPECT_NEAR(fit.a, truth.a, 1e-9);
  EXPECT_NEAR(fit.c, truth.c, 1e-9);
  const auto choice = choose_partitions(trials, 64);
  EXPECT_EQ(choice.partitions, 8);  // sqrt(b / a)
  EXPECT_NE(choice.reason.find("8 partitions"), std::string::npos) << choice.reason;
  EXPECT_EQ(choose_partitions(trials, 4).partitions, 4);
}

TEST(Partitions, WhereTheyOnlyCostOneIsBest) {
  const std::vector<PartitionTrial> trials = {{1, 0.010}, {2, 0.012}, {4, 0.016}};
  EXPECT_EQ(choose_partitions(trials, 16).partitions, 1);
}

TEST(AverageRows, IsTheMeanOfWholeTablesInTheOrderOfTheTree) {
  constexpr int kShards = 6;
  constexpr std::size_t kRows = 20;
  constexpr std::size_t kWidth = 3;
  const ShardTree tree(kShards);
  // Shard s touches every (s + 2)-nd row.
  std::vector<RowSums> shards(kShards);
  std::vector<std::vector<float>> whole(kShards, std::vector<float>(kRows * kWidth));
  std::vector<ShardTree::Held> leaves;
  for (int s = 0; s < kShards; ++s) {
    leaves.push_back({tree.grown({s, 1}), s});
    for (std::uint32_t row = 0; row < kRows; row += static_cast<std::uint32_t>(s) + 2) {
      shards[static_cast<std::size_t>(s)].rows.push_back(row);
      for (std::size_t k = 0; k < kWidth; ++k) {
        const float value = 0.1F * static_cast<float>(s + 1) + 1e-3F * static_cast<float>(row + k);
        shards[static_cast<std::size_t>(s)].values.push_back(value);
        whole[static_cast<std::size_t>(s)][row * kWidth + k] = value;
      }
    }
  }
  auto nodes = leaves;
  for (const auto& [into, from] : tree.join(nodes)) {
    for (std::size_t i = 0; i < kRows * kWidth; ++i) {
      whole[static_cast<std::size_t>(into)][i] += whole[static_cast<std::size_t>(from)][i];
    }
  }
  const RowSums mean = average_rows(tree, leaves, shards, kWidth);
  EXPECT_TRUE(std::ranges::is_sorted(mean.rows));
  std::size_t at = 0;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    const float* const expected = whole[0].data() + row * kWidth;
    const bool touched = at < mean.rows.size() && mean.rows[at] == row;
    for (std::size_t k = 0; k < kWidth; ++k) {
      EXPECT_EQ(touched ? mean.values[at * kWidth + k] : 0.0F, expected[k] / kShards) << row;
    }
    at += touched ? 1 : 0;
  }
  EXPECT_EQ(at, mean.rows.size());
}

}  // namespace
}  // namespace tutti::ps
