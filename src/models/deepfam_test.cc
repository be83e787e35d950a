#include "models/deepfam.h"

#include <gtest/gtest.h>

#include "models/flops_fixture.h"
#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

constexpr std::int64_t kPadding = 24;

// 1 where the letter is; a half twice for the letters that mean one of two; nothing for the padding.
torch::Tensor plain_places(const torch::Tensor& letters) {
  auto places = torch::zeros({letters.size(0), 21, 1, letters.size(1)});
  const auto add = [&](std::int64_t letter, std::int64_t place, double value) {
    places.select(1, place).squeeze(1).add_(letters.eq(letter).to(torch::kFloat32), value);
  };
  for (std::int64_t letter = 0; letter < 21; ++letter) add(letter, letter, 1);
  const std::int64_t either[][2] = {{2, 11}, {3, 13}, {7, 9}};
  for (std::int64_t i = 0; i < 3; ++i) {
    for (const auto place : either[i]) add(21 + i, place, 0.5);
  }
  return places;
}

torch::Tensor plain_norm(const torch::Tensor& x, const torch::Tensor& shift) {
  const auto dims = x.dim() == 4 ? std::vector<std::int64_t>{0, 2, 3} : std::vector<std::int64_t>{0};
  const auto mean = x.mean(dims, true);
  const auto variance = (x - mean).square().mean(dims, true);
  return (x - mean) / (variance + 0.001).sqrt() + shift.view_as(mean);
}

Batch random_batch(std::int64_t count) {
  auto letters = torch::randint(24, {count, 1000}, torch::kInt64);
  letters.slice(1, 600).fill_(kPadding);
  return {letters, torch::randint(86, {count}, torch::kInt64)};
}

torch::Tensor plain_scores(const torch::nn::Module& model, const torch::Tensor& letters) {
  const Plain plain(model);
  const auto weights = model.named_parameters();
  const auto places = plain_places(letters);
  std::vector<torch::Tensor> pooled;
  for (const std::string width : {"8", "12", "16", "20", "24", "28", "32", "36"}) {
    const auto x = plain_norm(torch::conv2d(places, weights["conv" + width + ".weight"]),
                              weights["norm" + width + ".bias"]);
    pooled.push_back(x.relu().flatten(2).amax(2));
  }
  const auto dropped = torch::dropout(torch::cat(pooled, 1), 0.3, true);
  const auto hidden = plain_norm(dropped.mm(weights["hidden.weight"].t()), weights["hidden_norm.bias"]);
  return plain.dense(hidden.relu(), "dense");
}

TEST(DeepFam, IsThePlainNetwork) {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  const auto model = make_model("deepfam");
  EXPECT_EQ(count_parameters(*model), 5'218'310);
  model->named_parameters()["norm8.bias"].uniform_(-1, 1);
  const auto batch = random_batch(3);
  torch::Tensor plain;
  torch::manual_seed(2);
  EXPECT_EQ(FlopCount::of([&] { plain = plain_scores(*model, batch[0]); }), 3 * deepfam().flops_per_sample);
  torch::manual_seed(2);
  expect_close(scores(*model, batch[0]), plain);
}

TEST(DeepFam, OneSampleLeavesWhatIsKnownOfManyAlone) {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  const auto model = make_model("deepfam");
  scores(*model, random_batch(3)[0]);
  const auto before = model->named_buffers()["hidden_norm.running_var"].clone();
  EXPECT_TRUE(scores(*model, random_batch(1)[0]).isfinite().all().item<bool>());
  EXPECT_TRUE(torch::equal(model->named_buffers()["hidden_norm.running_var"], before));
  for (const auto& buffer : model->named_buffers())
    EXPECT_TRUE(buffer.value().isfinite().all().item<bool>()) << buffer.key();
}

// With and without a batch's own statistics.
TEST(DeepFam, NormalisesByWhatTrainingHasSeen) {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  const auto model = make_model("deepfam");
  const auto batch = random_batch(3);
  scores(*model, batch[0]);
  const auto y = Plain(*model).convolve(plain_places(batch[0]), "conv36").transpose(0, 1).flatten(1);
  const auto buffers = model->named_buffers();
  expect_close(buffers["norm36.running_mean"], 0.1 * y.mean(1));
  expect_close(buffers["norm36.running_var"], 0.9 + 0.1 * y.var(1, /*unbiased=*/true));
}

TEST(DeepFam, PenalisesTheHiddenWeights) {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  const auto model = make_model("deepfam");
  model->eval();
  const auto batch = random_batch(2);
  const auto squares = model->named_parameters()["hidden.weight"].square().sum().item<double>();
  EXPECT_NEAR(model->loss(batch).item<double>(), model->score(batch).loss / 2 + 0.0005 * squares, 1e-3);
}

TEST(DeepFam, Learns) {
  torch::manual_seed(1);
  const auto model = deepfam().make({.classes = 3});
  expect_learns(*model, {random_batch(4)[0], torch::tensor({0, 1, 2, 0}, torch::kInt64)}, 10, 0.8);
}

}  // namespace
}  // namespace tutti::models
