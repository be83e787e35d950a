#include "models/row_lstm.h"

#include <gtest/gtest.h>

#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

TEST(RowLstm, IsTheCellUnrolledByHandAndLearns) {
  torch::manual_seed(1);
  const auto model = make_model("rnn-mnist");
  EXPECT_EQ(count_parameters(*model), 24'714);
  auto weights = model->named_parameters();
  const Batch batch = {torch::randn({8, 1, 28, 28}), torch::randint(10, {8}, torch::kInt64)};
  auto output = torch::zeros({8, 64});
  auto cell = torch::zeros({8, 64});
  for (int row = 0; row < 28; ++row) {
    const auto gates = batch[0].select(2, row).squeeze(1).mm(weights["lstm.weight_ih_l0"].t()) +
                       output.mm(weights["lstm.weight_hh_l0"].t()) + weights["lstm.bias_ih_l0"] +
                       weights["lstm.bias_hh_l0"];
    const auto part = gates.chunk(4, 1);  // input, forget, new, output
    cell = part[1].sigmoid() * cell + part[0].sigmoid() * part[2].tanh();
    output = part[3].sigmoid() * cell.tanh();
  }
  expect_close(scores(*model, batch[0]), Plain(*model).dense(output, "dense"));
  expect_learns(*model, batch, 30, 0.9);
}

TEST(RowLstm, TakesGreyImagesOfAnySize) {
  const auto fields = rnn_mnist().fields({.image_size = 20});
  EXPECT_EQ(fields[0].shape, (std::vector<std::int64_t>{1, 20, 20}));
  const auto model = rnn_mnist().make({.classes = 3, .image_size = 20});
  EXPECT_EQ(scores(*model, torch::randn({2, 1, 20, 20})).sizes(), (std::vector<std::int64_t>{2, 3}));
}

}  // namespace
}  // namespace tutti::models
