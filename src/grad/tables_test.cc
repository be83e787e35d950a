#include "grad/tables.h"

#include <gtest/gtest.h>

#include "grad/buckets.h"

namespace tutti::grad {
namespace {

struct Words : torch::nn::Module {
  torch::nn::Embedding in{register_module("in", torch::nn::Embedding(10, 3))};
  torch::nn::Linear middle{register_module("middle", torch::nn::Linear(3, 3))};
  torch::nn::Embedding out{register_module("out", torch::nn::Embedding(10, 3))};
  torch::Tensor forward(const torch::Tensor& a, const torch::Tensor& b) {
    return (middle(in(a)) * out(b)).sum();
  }
};

TEST(Tables, AreFoundByTheirLayers) {
  EXPECT_EQ(embedding_names(Words()), (std::vector<std::string>{"in.weight", "out.weight"}));
}

TEST(Tables, ChosenOnesGiveRowsAndTheOthersLiveInBuckets) {
  torch::manual_seed(1);
  auto words = std::make_shared<Words>();
  torch::manual_seed(1);
  auto plain = std::make_shared<Words>();
  const std::string chosen[] = {"out.weight"};
  Tables tables(*words, chosen);
  std::vector<std::vector<float>> blocks;
  Buckets buckets(
      *words, 1 << 20,
      [&](std::size_t bytes) { return std::as_writable_bytes(std::span(blocks.emplace_back(bytes / 4))); },
      tables);
  EXPECT_EQ(buckets.parameter_count(), 3U);
  std::vector<std::size_t> heard;
  tables.on_gradient([&](std::size_t t) { heard.push_back(t); });

  const auto a = torch::tensor({1, 2, 2, 5}, torch::kInt64);
  const auto b = torch::tensor({7, 7, 0, 9}, torch::kInt64);
  for (int step = 0; step < 2; ++step) {  // a gradient that was taken does not come again
    words->forward(a, b).backward();
    const auto touched = tables.take_gradient(0);
    EXPECT_TRUE(torch::equal(touched.rows, b));
    plain->zero_grad();
    plain->forward(a, b).backward();
    const auto dense = torch::zeros({10, 3}).index_add(0, touched.rows, touched.values);
    EXPECT_TRUE(torch::allclose(dense, plain->out->weight.grad()));
  }
  EXPECT_EQ(heard, (std::vector<std::size_t>{0, 0}));
  EXPECT_EQ(tables.take_gradient(0).rows.numel(), 0);

  // And back: no table is kept as rows any more.
  const Tables none(*words, {});
  words->forward(a, b).backward();
  EXPECT_FALSE(words->out->weight.grad().is_sparse());
}

}  // namespace
}  // namespace tutti::grad
