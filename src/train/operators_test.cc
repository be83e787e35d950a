#include "train/operators.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

namespace tutti::train {
namespace {

TEST(OperatorProgress, ForwardAndBackwardGetOnOperatorByOperator) {
  const auto board = net::StatusBoard::create(2);
  const auto weight = torch::ones({4, 4}, torch::requires_grad());
  const OperatorProgress progress(board, Rank{1});
  auto before = board.progress(Rank{1});
  const auto loss = torch::mm(weight, weight).sum();
  EXPECT_GE(board.progress(Rank{1}), before + 2);
  before = board.progress(Rank{1});
  loss.backward();
  EXPECT_GE(board.progress(Rank{1}), before + 2);
  EXPECT_EQ(board.progress(Rank{0}), 0U);
}

TEST(OperatorProgress, EachThreadGetsOnForItsOwnRankUntilItsEnd) {
  const auto board = net::StatusBoard::create(2);
  const OperatorProgress mine(board, Rank{0});
  std::thread([&] {
    {
      const OperatorProgress other(board, Rank{1});
      torch::ones({4}).sum();
    }
    const auto end = board.progress(Rank{1});
    EXPECT_GT(end, 0U);
    torch::ones({4}).sum();
    EXPECT_EQ(board.progress(Rank{1}), end);
  }).join();
  EXPECT_EQ(board.progress(Rank{0}), 0U);
}

}  // namespace
}  // namespace tutti::train
