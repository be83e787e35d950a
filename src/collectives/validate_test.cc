#include "collectives/validate.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::collectives {
namespace {

// Two ranks, one round: rank 0 sends elements [0, 4) to rank 1.
std::vector<Schedule> one_message() {
  return {{{{{{Rank{1}, {0, 4}}}, {}}}}, {{{{}, {{Rank{0}, {0, 4}, false}}}}}};
}

TEST(Validate, AcceptsAMatchedMessage) {
  EXPECT_EQ(broken_rule(one_message(), 4), "");
}

TEST(Validate, FindsAMissingRound) {
  auto all = one_message();
  all[1].rounds.emplace_back();
  EXPECT_EQ(broken_rule(all, 4), "ranks differ in their number of rounds");
}

TEST(Validate, FindsUnmatchedTransfers) {
  auto all = one_message();
  all[1].rounds[0].receives[0].chunk = {0, 3};
  EXPECT_EQ(broken_rule(all, 4), "round 0, rank 0: a send is received as another chunk");
  all[1].rounds[0].receives.clear();
  EXPECT_EQ(broken_rule(all, 4), "round 0, rank 0: a send is not received just once");
  all = one_message();
  all[0].rounds[0].sends.clear();
  EXPECT_EQ(broken_rule(all, 4), "round 0, rank 1: a receive waits for what nobody sends");
  all = one_message();
  all[0].rounds[0].sends.push_back({Rank{1}, {4, 1}});
  EXPECT_EQ(broken_rule(all, 8), "round 0, rank 0: two sends to one peer");
}

TEST(Validate, FindsOverlaps) {
  auto all = one_message();
  all[0].rounds[0].receives.push_back({Rank{1}, {3, 2}, true});
  all[1].rounds[0].sends.push_back({Rank{0}, {3, 2}});
  EXPECT_EQ(broken_rule(all, 8), "round 0, rank 0: a received chunk overlaps a sent one");
  std::vector<Schedule> gather(3);
  gather[0].rounds = {{{}, {{Rank{1}, {0, 2}, true}, {Rank{2}, {0, 2}, true}}}};
  gather[1].rounds = gather[2].rounds = {{{{Rank{0}, {0, 2}}}, {}}};
  EXPECT_EQ(broken_rule(gather, 2), "");
  gather[0].rounds[0].receives[1].combine = false;
  EXPECT_EQ(broken_rule(gather, 2), "round 0, rank 0: received chunks overlap");
}

// Two ranks swap.
TEST(Validate, WhatIsSentMayBeCombinedWithByMessagesOnly) {
  std::vector<Schedule> swap(2);
  for (const int r : {0, 1}) {
    swap[static_cast<std::size_t>(r)].rounds = {{{{Rank{1 - r}, {0, 4}}}, {{Rank{1 - r}, {0, 4}, true}}}};
  }
  EXPECT_EQ(broken_rule(swap, 4, true), "");
  EXPECT_EQ(broken_rule(swap, 4), "round 0, rank 0: a received chunk overlaps a sent one");
  swap[0].rounds[0].receives[0].combine = false;
  EXPECT_EQ(broken_rule(swap, 4, true), "round 0, rank 0: a received chunk overlaps a sent one");
}

TEST(Validate, FindsChunksThatAreEmptyOrOutside) {
  EXPECT_EQ(broken_rule(one_message(), 3), "round 0, rank 0: a chunk leaves the buffer");
  auto all = one_message();
  all[0].rounds[0].sends[0].chunk.count = 0;
  EXPECT_EQ(broken_rule(all, 4), "round 0, rank 0: an empty chunk travels");
  all[0].rounds[0].sends[0] = {Rank{2}, {0, 4}};
  EXPECT_EQ(broken_rule(all, 4), "round 0, rank 0: a peer is not in the world");
}

}  // namespace
}  // namespace tutti::collectives
