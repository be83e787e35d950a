#include "models/lstm_lm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/plain_fixture.h"

namespace tutti::models {
namespace {

constexpr ModelOptions kSmall = {.vocabulary = 60, .embedding = 6, .hidden = 10, .unroll = 5, .sampled = 8};

Batch random_text(std::int64_t samples) {
  return {torch::randint(kSmall.vocabulary, {samples, kSmall.unroll + 1}, torch::kInt64)};
}

TEST(LstmLm, HasTheParametersOfItsSizes) {
  const auto model = make_model("lstm-lm");
  EXPECT_EQ(count_parameters(*model), 2 * 33'278 * 512 + 33'278 + 2 * 8192 * 512 + 2 * 8192 + 2048 * 512);
  EXPECT_EQ(lstm_lm().fields(kSmall)[0].shape, (std::vector<std::int64_t>{6}));
  EXPECT_EQ(lstm_lm().fields(kSmall)[0].below, 60);
}

TEST(LstmLm, RefusesSizesThatDoNotFit) {
  EXPECT_THROW(make_model("lstm-lm", {.vocabulary = 100, .sampled = 101}), ConfigError);
  EXPECT_THROW(make_model("lstm-lm", {.vocabulary = 100, .embedding = 64, .hidden = 64, .sampled = 10}),
               ConfigError);
  EXPECT_THROW(make_model("lstm-lm", {.classes = 10}), ConfigError);
}

// Scores over the vocabulary: the projected cell unrolled by hand. Samples, then positions.
torch::Tensor plain_scores(const Model& model, const torch::Tensor& tokens) {
  auto w = model.named_parameters();
  auto output = torch::zeros({tokens.size(0), kSmall.embedding});
  auto cell = torch::zeros({tokens.size(0), kSmall.hidden});
  std::vector<torch::Tensor> all;
  for (std::int64_t t = 0; t < kSmall.unroll; ++t) {
    const auto word = w["embedding.weight"].index_select(0, tokens.select(1, t));
    const auto gates = word.mm(w["lstm.weight_ih_l0"].t()) + output.mm(w["lstm.weight_hh_l0"].t()) +
                       w["lstm.bias_ih_l0"] + w["lstm.bias_hh_l0"];
    const auto part = gates.chunk(4, 1);  // input, forget, new, output
    cell = part[1].sigmoid() * cell + part[0].sigmoid() * part[2].tanh();
    output = (part[3].sigmoid() * cell.tanh()).mm(w["lstm.weight_hr_l0"].t());
    all.push_back(output.mm(w["softmax.weight"].t()) + w["softmax_bias.weight"].t());
  }
  return torch::stack(all, 1);
}

TEST(LstmLm, ScoresEveryWordWithTheFullSoftmax) {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  const auto model = make_model("lstm-lm", kSmall);
  model->named_parameters()["softmax_bias.weight"].normal_();
  const auto batch = random_text(70);  // more positions than are scored at once
  const auto scores = plain_scores(*model, batch[0]).flatten(0, 1);
  const auto words = batch[0].slice(1, 1).flatten();
  const auto score = model->score(batch);
  EXPECT_EQ(score.samples, 350);
  EXPECT_EQ(score.counts[0], scores.argmax(1).eq(words).sum().item<double>());
  const auto& perplexity = find_model("lstm-lm").measures.figures.back();
  EXPECT_EQ(perplexity.name, "perplexity");
  EXPECT_NEAR(perplexity.of(score),
              std::exp(torch::nn::functional::cross_entropy(scores, words).item<double>()), 1e-2);
  EXPECT_NEAR(score.loss, 350 * torch::nn::functional::cross_entropy(scores, words).item<double>(), 1e-2);
}

TEST(LstmLm, TrainsWithTheSampledSoftmax) {
  torch::manual_seed(2);
  const torch::NoGradGuard no_grad;
  const auto model = make_model("lstm-lm", kSmall);
  model->named_parameters()["softmax_bias.weight"].normal_();
  const auto batch = random_text(3);
  const auto drawn = candidates_for(batch[0], kSmall);
  const auto all = plain_scores(*model, batch[0]).flatten(0, 1);
  const auto words = batch[0].slice(1, 1).flatten();
  const SampledScores scores = {all.gather(1, words.unsqueeze(1)).squeeze(1),
                                all.index_select(1, torch::tensor(drawn.words, torch::kInt64))};
  EXPECT_NEAR(model->loss(batch).item<double>(),
              sampled_softmax_loss(scores, words, drawn, kSmall.vocabulary).item<double>(), 1e-5);
}

TEST(LstmLm, TouchesExactlyTheRowsThatItSays) {
  torch::manual_seed(3);
  const auto model = make_model("lstm-lm", kSmall);
  for (const auto& m : model->modules()) {
    if (auto* table = m->as<torch::nn::EmbeddingImpl>()) table->options.sparse(true);
  }
  const auto batch = random_text(2);
  const auto said = model->rows_read(batch);
  model->loss(batch).backward();
  const char* const tables[] = {"embedding.weight", "softmax.weight", "softmax_bias.weight"};
  ASSERT_EQ(said.size(), 3U);
  for (std::size_t t = 0; t < 3; ++t) {
    const auto touched = model->named_parameters()[tables[t]].grad()._indices().flatten();
    EXPECT_TRUE(torch::equal(std::get<0>(touched.sort()), std::get<0>(said[t].sort()))) << tables[t];
  }
}

TEST(LstmLm, DrawsOtherCandidatesForOtherTexts) {
  const auto words = [](const Batch& batch) { return candidates_for(batch[0], kSmall).words; };
  const auto text = random_text(2);
  auto other = Batch{text[0].clone()};
  other[0][0][0] = (other[0][0][0] + 1) % kSmall.vocabulary;
  EXPECT_EQ(words(text), words({text[0].clone()}));
  EXPECT_NE(words(text), words(other));
}

TEST(LstmLm, Learns) {
  torch::manual_seed(4);
  const auto model =
      make_model("lstm-lm", {.vocabulary = 60, .embedding = 32, .hidden = 64, .unroll = 5, .sampled = 30});
  expect_learns(*model, random_text(4), 40, 0.8);
}

}  // namespace
}  // namespace tutti::models
