#include "train/operators.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

namespace tutti::train {
namespace {

constexpr auto kTimeout = std::chrono::seconds(2);

TEST(OperatorProgress, ForwardAndBackwardGetOnOperatorByOperator) {
  const auto board = net::StatusBoard::create(2);
  const auto weight = torch::ones({4, 4}, torch::requires_grad());
  const OperatorProgress progress(board, Rank{1}, kTimeout);
  auto before = board.vitals(Rank{1}).progress;
  const auto loss = torch::mm(weight, weight).sum();
  EXPECT_GE(board.vitals(Rank{1}).progress, before + 2);
  before = board.vitals(Rank{1}).progress;
  loss.backward();
  EXPECT_GE(board.vitals(Rank{1}).progress, before + 2);
  EXPECT_EQ(board.vitals(Rank{0}).progress, 0U);
}

TEST(OperatorProgress, OperatorsAreNotedWherePassesAreLongOrOfUnknownLength) {
  const auto board = net::StatusBoard::create(1);
  OperatorProgress progress(board, Rank{0}, kTimeout);
  const auto notes = [&] {
    const auto before = board.vitals(Rank{0}).progress;
    torch::ones({4}).sum();
    return board.vitals(Rank{0}).progress > before;
  };
  using std::chrono::milliseconds;
  EXPECT_TRUE(notes());
  progress.after_pass(milliseconds(100));
  EXPECT_TRUE(notes());
  progress.after_pass(milliseconds(99));
  EXPECT_FALSE(notes());
  progress.after_pass(milliseconds(99));
  EXPECT_FALSE(notes());
  progress.after_pass(milliseconds(100));
  EXPECT_TRUE(notes());
  progress.after_pass(milliseconds(1));
  progress.listen();
  EXPECT_TRUE(notes());
}

TEST(OperatorProgress, EachThreadGetsOnForItsOwnRankUntilItsEnd) {
  const auto board = net::StatusBoard::create(2);
  const OperatorProgress mine(board, Rank{0}, kTimeout);
  std::thread([&] {
    {
      const OperatorProgress other(board, Rank{1}, kTimeout);
      torch::ones({4}).sum();
    }
    const auto end = board.vitals(Rank{1}).progress;
    EXPECT_GT(end, 0U);
    torch::ones({4}).sum();
    EXPECT_EQ(board.vitals(Rank{1}).progress, end);
  }).join();
  EXPECT_EQ(board.vitals(Rank{0}).progress, 0U);
}

}  // namespace
}  // namespace tutti::train
