#include "models/wide_deep.h"

#include <gtest/gtest.h>

namespace tutti::models {
namespace {

TEST(WideDeep, ReadsTheRowsThatItSays) {
  torch::manual_seed(5);
  const auto model = make_model("wide-deep");
  EXPECT_EQ(count_parameters(*model), WideDeep::kParameters);
  const Batch batch = {torch::randn({3, 13}), torch::randint(WideDeep::kRows, {3, 26}, torch::kInt64),
                       torch::tensor({0.0F, 1.0F, 1.0F})};
  model->loss(batch).backward();
  const auto said = model->rows_read(batch);
  const char* const tables[] = {"wide.weight", "deep.weight"};
  ASSERT_EQ(said.size(), 2U);
  for (std::size_t t = 0; t < 2; ++t) {
    auto untouched = torch::ones({WideDeep::kRows}, torch::kBool);
    untouched.index_fill_(0, said[t], false);
    const auto gradient = model->named_parameters()[tables[t]].grad();
    EXPECT_EQ(gradient.abs().sum(1).masked_select(untouched).sum().item<float>(), 0.0F);
    EXPECT_GT(gradient.abs().sum().item<float>(), 0.0F);
  }
}

TEST(WideDeep, LearnsAFewSamplesByHeart) {
  torch::manual_seed(6);
  const auto model = make_model("wide-deep");
  const Batch batch = {torch::randn({16, 13}), torch::randint(WideDeep::kRows, {16, 26}, torch::kInt64),
                       torch::randint(2, {16}).to(torch::kFloat32)};
  torch::optim::Adagrad optimizer(model->parameters(), 0.05);
  const double before = model->loss(batch).item<double>();
  for (int i = 0; i < 20; ++i) {
    optimizer.zero_grad();
    model->loss(batch).backward();
    optimizer.step();
  }
  EXPECT_LT(model->loss(batch).item<double>(), 0.1 * before);
  const auto score = model->score(batch);
  EXPECT_EQ(score.counts[0], 16);
  const auto& auc = find_model("wide-deep").measures.figures.back();
  EXPECT_EQ(auc.name, "auc");
  EXPECT_EQ(auc.of(score), 1);
}

}  // namespace
}  // namespace tutti::models
