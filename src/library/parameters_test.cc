// Parameters that are shared, frozen, tied, nobody's, or rows of a table.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>

#include "library/distributed_fixture.h"

namespace tutti::library {
namespace {

namespace nn = torch::nn;

struct SharedAndFrozenImpl : nn::Module {
  SharedAndFrozenImpl() {
    first = register_module("first", nn::Linear(4, 4));
    again = register_module("again", first.ptr());
    frozen = register_module("frozen", nn::Linear(4, 4));
    for (auto& p : frozen->parameters()) p.set_requires_grad(false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return again(frozen(first(x))); }
  nn::Linear first{nullptr};
  nn::Linear again{nullptr};
  nn::Linear frozen{nullptr};
};
TORCH_MODULE(SharedAndFrozen);

TEST(Distributed, SharedParametersCountOnceAndFrozenOnesBecomeRankZeros) {
  std::mutex alone;  // torch draws first weights from one source
  std::vector<torch::Tensor> results(2);
  std::vector<torch::Tensor> frozen(2);
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    auto net = [&] {
      const std::scoped_lock lock(alone);
      return SharedAndFrozen();
    }();
    torch::optim::SGD sgd(net->first->parameters(), 0.1);
    Distributed training(session, *net, sgd);
    const auto before = flat(net->first->parameters()).clone();
    for (int s = 0; s < 3; ++s) {
      sgd.zero_grad();
      const auto mine = torch::full({2, 4}, static_cast<float>(s + session.rank()));
      net->forward(mine).square().mean().backward();
      training.step();
    }
    const auto r = static_cast<std::size_t>(session.rank());
    results[r] = flat(net->first->parameters()).clone();
    frozen[r] = flat(net->frozen->parameters()).clone();
    EXPECT_FALSE(torch::equal(results[r], before));
  });
  EXPECT_TRUE(torch::equal(results[0], results[1]));
  EXPECT_TRUE(torch::equal(frozen[0], frozen[1]));
}

struct WordsImpl : nn::Module {
  WordsImpl() {
    table = register_module("table", nn::Embedding(50, 4));
    out = register_module("out", nn::Linear(4, 1));
    const torch::NoGradGuard no_grad;
    for (auto& p : parameters()) p.copy_(torch::linspace(-1, 1, p.numel()).view_as(p));
  }
  torch::Tensor forward(const torch::Tensor& words) { return out(table(words).mean(1)); }
  nn::Embedding table{nullptr};
  nn::Linear out{nullptr};
};
TORCH_MODULE(Words);

torch::Tensor words_of(int step, int rank) {
  return (torch::arange(12).view({3, 4}) * (step + 2) + rank * 7) % 50;
}

// A worker's gradient of these words.
using WordsBackward = std::function<void(Distributed&, Words&, const torch::Tensor& words)>;

// Where tables have rows of their own, gradients so computed train as one process alone does.
void expect_words_learned(const WordsBackward& backward) {
  const auto expected = [] {
    Words net;
    torch::optim::SGD sgd(net->parameters(), 0.5);
    for (int s = 0; s < kSteps; ++s) {
      sgd.zero_grad();
      net->forward(torch::cat({words_of(s, 0), words_of(s, 1)})).square().mean().backward();
      sgd.step();
    }
    return flat(net->parameters());
  }();
  for (const std::string strategy : {"ps-sync", "hybrid"}) {
    std::vector<torch::Tensor> results(2);
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Words net;
      torch::optim::SGD sgd(net->parameters(), 0.5);
      Distributed training(session, *net, sgd, {.strategy = strategy});
      for (int s = 0; s < kSteps; ++s) {
        sgd.zero_grad();
        backward(training, net, words_of(s, session.rank()));
        EXPECT_FALSE(net->table->weight.grad().defined()) << "rows have left";
        training.step();
      }
      training.finish();
      results[static_cast<std::size_t>(session.rank())] = flat(net->parameters()).clone();
    });
    SCOPED_TRACE(strategy);
    expect_reference(results, expected);
  }
}

TEST(Distributed, EmbeddingsGoByRows) {
  expect_words_learned([](Distributed&, Words& net, const torch::Tensor& words) {
    net->forward(words).square().mean().backward();
  });
}

TEST(Distributed, HeldBackRowsAddUp) {
  expect_words_learned([](Distributed& training, Words& net, const torch::Tensor& words) {
    {
      const auto held = training.no_sync();
      (net->forward(words.narrow(0, 0, 1)).square().mean() / 3).backward();
    }
    EXPECT_TRUE(net->table->weight.grad().defined()) << "rows have not left";
    (net->forward(words.narrow(0, 1, 2)).square().mean() * 2 / 3).backward();
  });
}

TEST(Distributed, ParametersThatNobodyTrainsBecomeRankZerosToo) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    Net net(session.rank() == 0 ? 1.0 : 2.0);
    torch::optim::SGD head(net->out->parameters(),
                           0.1);  // and the rest wants gradients, but gets none applied
    const Distributed training(session, *net, head);
    const auto all = session.all_gather(flat(net->parameters()));
    EXPECT_TRUE(torch::equal(all[0], all[1]));
  });
}

TEST(Distributed, FrozenParametersMayBeTheOptimizersToo) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    Net net(session.rank() == 0 ? 1.0 : 2.0);
    for (auto& p : net->hidden->parameters()) p.set_requires_grad(false);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd);
    const auto before = flat(net->hidden->parameters()).clone();
    loss_of(net, samples(0, 1)).backward();
    training.step();
    EXPECT_TRUE(torch::equal(flat(net->hidden->parameters()), before));
    const auto all = session.all_gather(flat(net->parameters()));
    EXPECT_TRUE(torch::equal(all[0], all[1]));
  });
}

TEST(Distributed, EmbeddingsThatAreFrozenSharedOrTiedAreRight) {
  struct TiedImpl : nn::Module {
    TiedImpl() {
      table = register_module("table", nn::Embedding(12, 4));
      again = register_module("again", table.ptr());
      frozen = register_module("frozen", nn::Embedding(12, 4));
      alone = register_module("alone", nn::Embedding(12, 4));
      const torch::NoGradGuard no_grad;
      for (auto& p : parameters()) p.copy_(torch::linspace(-1, 1, p.numel()).view_as(p));
      frozen->weight.set_requires_grad(false);
    }
    torch::Tensor loss(const torch::Tensor& words) {
      const auto x = table(words) + frozen(words) + again(words) + alone(words);
      return x.matmul(alone->weight.t()).square().mean();  // as a matrix, too
    }
    nn::Embedding table{nullptr}, again{nullptr}, frozen{nullptr}, alone{nullptr};
  };
  const auto words = [](int rank) { return torch::arange(6) + 3 * rank; };
  const auto expected = [&] {
    TiedImpl net;
    torch::optim::SGD sgd({net.table->weight, net.alone->weight}, 0.5);
    for (int s = 0; s < 3; ++s) {
      sgd.zero_grad();
      ((net.loss(words(0)) + net.loss(words(1))) / 2).backward();
      sgd.step();
    }
    return flat(net.parameters());
  }();
  for (const std::string strategy : {"ps-sync", "hybrid", "ring"}) {
    std::vector<torch::Tensor> results(2);
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      TiedImpl net;
      torch::optim::SGD sgd({net.table->weight, net.alone->weight}, 0.5);
      Distributed training(session, net, sgd, {.strategy = strategy});
      for (int s = 0; s < 3; ++s) {
        sgd.zero_grad();
        net.loss(words(session.rank())).backward();
        training.step();
      }
      training.finish();
      results[static_cast<std::size_t>(session.rank())] = flat(net.parameters()).clone();
    });
    expect_reference(results, expected);
  }
}

}  // namespace
}  // namespace tutti::library
