#include "ps/layout.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace tutti::ps {
namespace {

TEST(Layout, PiecesCoverEveryFloatOnceAndLieApartInTheirServersMemory) {
  SplitMix64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> buckets(1 + random.below(8));
    for (auto& b : buckets) b = 1 + random.below(5000);
    const int servers = static_cast<int>(1 + random.below(5));
    if (std::accumulate(buckets.begin(), buckets.end(), std::size_t{0}) < static_cast<std::size_t>(servers))
      continue;
    const auto layout = lay_out({.buckets = buckets,
                                 .piece_bytes = 4 + random.below(4096),
                                 .tables = {{"words", 1 + random.below(50), 1 + random.below(9)}},
                                 .partitions = static_cast<int>(1 + random.below(4))},
                                servers);
    std::vector<std::size_t> next(buckets.size());
    std::vector<std::size_t> memory_end(static_cast<std::size_t>(servers));
    const auto lies_apart = [&](int server, std::size_t at, std::size_t floats) {
      std::size_t& end = memory_end[static_cast<std::size_t>(server)];
      EXPECT_GE(at, end);
      EXPECT_EQ(at % 64, 0U);
      end = at + 64 + floats * sizeof(float);
      EXPECT_LE(end, layout.bytes[static_cast<std::size_t>(server)]);
    };
    for (const Piece& p : layout.pieces) {
      EXPECT_EQ(p.first, next[p.bucket]);
      EXPECT_GT(p.count, 0U);
      next[p.bucket] += p.count;
      lies_apart(p.server, p.memory_at, p.count);
    }
    for (const TablePartition& p : layout.partitions) lies_apart(p.server, p.memory_at, p.rows * p.width);
    EXPECT_EQ(next, buckets);
  }
}

TEST(Layout, NoServerHoldsMoreThanItsShareByOverFivePercent) {
  // The buckets of the network of study B, of a VGG-like one, and of one with a single large tensor.
  const std::vector<std::vector<std::size_t>> models = {
      {262144, 262144, 166302}, {102764544, 16777216, 4096000, 9437184, 2359296, 64, 1728}, {26 << 20}};
  for (const auto& buckets : models) {
    const std::size_t total = std::accumulate(buckets.begin(), buckets.end(), std::size_t{0});
    for (int servers = 1; servers <= 16; ++servers) {
      std::vector<std::size_t> held(static_cast<std::size_t>(servers));
      for (const Piece& p : cut_into_pieces(buckets, servers, 1 << 20))
        held[static_cast<std::size_t>(p.server)] += p.count;
      for (const std::size_t h : held) {
        EXPECT_LE(static_cast<double>(h), 1.05 * static_cast<double>(total) / servers) << servers;
      }
    }
  }
}

TEST(Layout, LargeBucketsAreSplitSoThatTheirPiecesOverlap) {
  const std::vector<std::size_t> buckets = {4 << 20};
  EXPECT_EQ(cut_into_pieces(buckets, 1, 1 << 20).size(), 16U);
  EXPECT_EQ(cut_into_pieces(buckets, 3, 1 << 20).size(), 15U);
}

TEST(Layout, WorkersBeginEveryRoundOverTheServersWithAnother) {
  const std::vector<std::size_t> buckets = {1000, 7};
  const auto pieces = cut_into_pieces(buckets, 3, 500);
  ASSERT_EQ(pieces.size(), 9U);
  EXPECT_EQ(sending_order(pieces, 2, 3, 0), (Order{{0, 1, 2, 3, 4, 5}, {6, 7, 8}}));
  EXPECT_EQ(sending_order(pieces, 2, 3, 1), (Order{{1, 2, 0, 4, 5, 3}, {7, 8, 6}}));
  EXPECT_EQ(sending_order(pieces, 2, 3, 5), (Order{{2, 0, 1, 5, 3, 4}, {8, 6, 7}}));

  const std::vector<TableShape> tables = {{"wide", 100, 2}, {"narrow", 10, 1}};
  const auto partitions = cut_tables(tables, 3, 3);
  EXPECT_EQ(sending_order(partitions, 2, 3, 0), (Order{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(sending_order(partitions, 2, 3, 2), (Order{{2, 0, 1}, {5, 3, 4}}));
}

TEST(Layout, MoreServersThanParametersAreRefused) {
  const std::vector<std::size_t> buckets = {1, 2};
  EXPECT_EQ(cut_into_pieces(buckets, 3, 1 << 20).size(), 3U);
  EXPECT_THROW(cut_into_pieces(buckets, 4, 1 << 20), ConfigError);
}

}  // namespace
}  // namespace tutti::ps
