#include "models/lstm_lm.h"

#include <torch/nn.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "models/unrolled_lstm.h"

namespace tutti::models {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

// Positions whose scores over the whole vocabulary are held at a time.
constexpr std::int64_t kScoredAtOnce = 256;

std::uint64_t seed_of(const torch::Tensor& tokens) {
  const auto here = tokens.cpu().contiguous();
  const auto* numbers = here.data_ptr<std::int64_t>();
  std::uint64_t seed = 0;
  for (std::int64_t i = 0; i < here.numel(); ++i) {
    seed = mix_seed({seed, static_cast<std::uint64_t>(numbers[i])});
  }
  return seed;
}

// Step by step through all samples, so that what the LSTM needs together lies together.
torch::Tensor words_read(const torch::Tensor& tokens) {
  return tokens.slice(1, 0, -1).t().contiguous();
}
torch::Tensor words_predicted(const torch::Tensor& tokens) {
  return tokens.slice(1, 1).t().flatten();
}

class LstmLm final : public Model {
 public:
  explicit LstmLm(const ModelOptions& options)
      : options_(options),
        embedding_(register_module("embedding", nn::Embedding(options.vocabulary, options.embedding))),
        lstm_(register_module(
            "lstm",
            nn::LSTM(nn::LSTMOptions(options.embedding, options.hidden).proj_size(options.embedding)))),
        softmax_(register_module("softmax", nn::Embedding(options.vocabulary, options.embedding))),
        softmax_bias_(register_module("softmax_bias", nn::Embedding(options.vocabulary, 1))) {
    // Rows about as long as one.
    const double deviation = 1 / std::sqrt(static_cast<double>(options.embedding));
    nn::init::normal_(embedding_->weight, 0, deviation);
    nn::init::normal_(softmax_->weight, 0, deviation);
    nn::init::zeros_(softmax_bias_->weight);
  }

  torch::Tensor loss(const Batch& batch) override {
    const auto x = outputs(batch[0]);
    const auto words = words_predicted(batch[0]);
    const auto candidates = candidates_for(batch[0], options_);
    // One look-up for both, so that backward leaves one set of rows.
    const auto rows = rows_of_softmax(words, candidates);
    const auto weights = softmax_(rows);
    const auto biases = softmax_bias_(rows).squeeze(1);
    const auto n = words.size(0);
    return sampled_softmax_loss({.right = (x * weights.slice(0, 0, n)).sum(1) + biases.slice(0, 0, n),
                                 .candidates = torch::addmm(biases.slice(0, n), x, weights.slice(0, n).t())},
                                words, candidates, options_.vocabulary);
  }

  Score score(const Batch& batch) override {
    const auto x = outputs(batch[0]);
    const auto words = words_predicted(batch[0]);
    Score sum{.samples = static_cast<double>(words.size(0)), .counts = {0}};
    for (std::int64_t i = 0; i < words.size(0); i += kScoredAtOnce) {
      const auto scores = torch::addmm(softmax_bias_->weight.squeeze(1), x.slice(0, i, i + kScoredAtOnce),
                                       softmax_->weight.t());
      const auto right = words.slice(0, i, i + kScoredAtOnce);
      sum.loss +=
          F::cross_entropy(scores, right, F::CrossEntropyFuncOptions().reduction(torch::kSum)).item<double>();
      sum.counts[0] += scores.argmax(1).eq(right).sum().item<double>();
    }
    return sum;
  }

  std::vector<torch::Tensor> rows_read(const Batch& batch) const override {
    const auto rows = rows_of_softmax(words_predicted(batch[0]), candidates_for(batch[0], options_));
    return {words_read(batch[0]).flatten(), rows, rows};
  }

 private:
  // positions x embedding
  torch::Tensor outputs(const torch::Tensor& tokens) {
    return unrolled_lstm(lstm_, embedding_(words_read(tokens))).flatten(0, 1);
  }

  static torch::Tensor rows_of_softmax(const torch::Tensor& words, const Candidates& candidates) {
    return torch::cat({words, torch::tensor(candidates.words, torch::kInt64).to(words.device())});
  }

  const ModelOptions options_;
  nn::Embedding embedding_;
  nn::LSTM lstm_;
  nn::Embedding softmax_, softmax_bias_;
};

void check(const ModelOptions& options) {
  if (options.sampled > options.vocabulary) {
    throw ConfigError(fmt::format("model lstm-lm: sampled {} is more than the vocabulary, {}",
                                  options.sampled, options.vocabulary));
  }
  if (options.embedding >= options.hidden) {
    throw ConfigError(
        fmt::format("model lstm-lm: embedding {} is not below hidden {}, which is projected to it",
                    options.embedding, options.hidden));
  }
}

std::vector<Field> lstm_lm_fields(const ModelOptions& options) {
  check(options);
  return {{"tokens", DType::i64, {options.unroll + 1}, options.vocabulary}};
}

std::shared_ptr<Model> make_lstm_lm(const ModelOptions& options) {
  check(options);
  return std::make_shared<LstmLm>(options);
}

// Of the mean loss a word.
Measures lstm_lm_measures() {
  const auto perplexity = [](const Score& sums) { return std::exp(sums.loss / sums.samples); };
  return {.counts = 1, .figures = {mean_loss(), share("accuracy", 0), {"perplexity", true, perplexity}}};
}

constexpr ModelOptions kLstmLm = {
    .vocabulary = 33'278, .embedding = 512, .hidden = 2048, .unroll = 20, .sampled = 1024};

constexpr std::int64_t kParameters = kLstmLm.vocabulary * (2 * kLstmLm.embedding + 1) +
                                     4 * kLstmLm.hidden * (2 * kLstmLm.embedding + 2) +
                                     kLstmLm.hidden * kLstmLm.embedding;

// A training step's: the full softmax of evaluation costs more.
constexpr double kFlops =
    2.0 * static_cast<double>(kLstmLm.unroll) *
    static_cast<double>(4 * kLstmLm.hidden * 2 * kLstmLm.embedding + kLstmLm.hidden * kLstmLm.embedding +
                        (kLstmLm.sampled + 1) * kLstmLm.embedding);

}  // namespace

Candidates candidates_for(const torch::Tensor& tokens, const ModelOptions& options) {
  return draw_candidates(options.vocabulary, options.sampled, seed_of(tokens));
}

ModelInfo lstm_lm() {
  return {.name = "lstm-lm",
          .summary = "language model: LSTM of 2048 projected to 512, sampled softmax, sparse embeddings",
          .own = kLstmLm,
          .parameters = kParameters,
          .flops_per_sample = kFlops,
          .data = "wikitext-2",
          .has_tables = true,
          .measures = lstm_lm_measures(),
          .takes = lstm_lm_fields,
          .build = make_lstm_lm};
}

}  // namespace tutti::models
