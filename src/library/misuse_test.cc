// Programs that use the library wrongly, or in ways that are easily wrong: none is wrong without a word.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cmath>
#include <future>
#include <set>

#include "base/error.h"
#include "library/library_fixture.h"
#include "library/net_fixture.h"
#include "tutti/distributed.h"
#include "tutti/strategy.h"

namespace tutti::library {
namespace {

namespace nn = torch::nn;

TEST(Misuse, SecondGradientWithoutAStepIsRefusedByName) {
  run_sessions(1, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd);
    loss_of(net, samples(0, 1)).backward();
    try {
      loss_of(net, samples(1, 1)).backward();
      FAIL() << "was accepted";
    } catch (const std::exception& e) {
      EXPECT_NE(std::string(e.what()).find("out.bias has got a second gradient"), std::string::npos)
          << e.what();
    }
  });
}

void expect_refused(const std::string& why, const DistributedOptions& options,
                    torch::ScalarType type = torch::kFloat32) {
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    Net net(1.0);
    net->to(type);
    torch::optim::Adam amsgrad(net->parameters(), torch::optim::AdamOptions(0.1).amsgrad(true));
    try {
      const Distributed training(session, *net, amsgrad, options);
      ADD_FAILURE() << options.strategy << " was accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  });
}

TEST(Misuse, RefusesWithTheReason) {
  expect_refused("unknown strategy 'rings'", {.strategy = "rings"});
  expect_refused("there are 2 processes", {.strategy = "local"});
  expect_refused("cannot by this optimizer: it has amsgrad", {.strategy = "ps-async"});
  expect_refused("cannot by this optimizer: it has amsgrad", {.strategy = "hybrid"});
  expect_refused("3 servers for 2 processes", {.strategy = "ps-sync", .servers = 3});
  expect_refused("inputs may not be uneven", {.strategy = "local-sgd", .uneven_inputs = true});
  expect_refused("a hook is for strategies that average", {.strategy = "ps-sync", .hook = bf16_hook()});
  expect_refused("sync_every is 0", {.strategy = "local-sgd", .sync_every = 0});
  expect_refused("clip_norm is -1", {.clip_norm = -1});
  expect_refused("clip_norm is nan", {.clip_norm = std::nan("")});
  expect_refused("moving_rate is 1.5", {.strategy = "easgd", .moving_rate = 1.5});
  expect_refused("parameter hidden.weight is Double on cpu", {}, torch::kFloat64);
}

TEST(Misuse, GradientsThatHaveLeftMayNotChange) {
  run_sessions(1, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd);
    loss_of(net, samples(0, 1)).backward();
    const auto held = training.no_sync();
    EXPECT_THROW(loss_of(net, samples(1, 1)).backward(), std::exception);
  });
}

using Change = std::function<void(DistributedOptions&)>;

TEST(Misuse, ProcessesThatWereToldDifferentThingsAreRefusedAtOnce) {
  const std::vector<Change> changes = {
      [](auto& o) { o.bucket_bytes = 128; }, [](auto& o) { o.strategy = "ring"; },
      [](auto& o) { o.uneven_inputs = true; }, [](auto& o) { o.clip_norm = 1; },
      [](auto& o) { o.skip_nonfinite = true; }};
  for (const std::string strategy : {"allreduce", "ps-sync"}) {
    for (const Change& change : changes) {
      run_sessions(2, net::Medium::memory, [&](Session& session) {
        Net net(1.0);
        torch::optim::SGD sgd(net->parameters(), 0.1);
        DistributedOptions options{.strategy = strategy};
        if (session.rank() == 1) change(options);
        expect_throw<ConfigError>("processes 0 and 1 do not train the same",
                                  [&] { Distributed(session, *net, sgd, options); });
      });
    }
  }
}

// The servers would count those that push otherwise than the process does.
TEST(Misuse, ProcessesOfWhichSomePushAsOneAreRefusedAtOnce) {
  struct Table : torch::nn::Module {
    torch::nn::Embedding words{register_module("words", torch::nn::Embedding(9, 2))};
  };
  run_sessions_on({0, 0, 1, 1}, [&](Session& session) {
    Net net(1.0);
    Table table;
    torch::nn::Module& mine = session.rank() == 3 ? static_cast<torch::nn::Module&>(table) : *net;
    torch::optim::SGD sgd(mine.parameters(), 0.1);
    expect_throw<ConfigError>("processes 0 and 3 do not train the same",
                              [&] { Distributed(session, mine, sgd, {.strategy = "ps-sync"}); });
  });
}

TEST(Misuse, ProcessesWithDifferentOptimizersAreRefused) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(),
                          torch::optim::SGDOptions(0.1).momentum(session.rank() == 0 ? 0.9 : 0.8));
    expect_throw<ConfigError>("momentum 0.9", [&] { Distributed(session, *net, sgd); });
  });
}

// The others do not wait for one that was refused.
TEST(Misuse, WhatOneProcessAloneWasToldWronglyAllHear) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    expect_throw<ConfigError>("unknown strategy 'rings'", [&] {
      Distributed(session, *net, sgd, {.strategy = session.rank() == 1 ? "rings" : "ring"});
    });
  });
}

TEST(Misuse, RefusesAnOptimizerOfAnotherModule) {
  run_sessions(1, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    Net other(1.0);
    torch::optim::SGD sgd(other->parameters(), 0.1);
    EXPECT_THROW(Distributed(session, *net, sgd), ConfigError);
  });
}

TEST(Misuse, AGradientThatIsReplacedAfterItHasLeftIsRefusedByName) {
  for (const std::string strategy : {"allreduce", "ps-sync"}) {
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Net net(1.0);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      Distributed training(session, *net, sgd, {.strategy = strategy});
      loss_of(net, samples(0, 1)).backward();
      net->out->bias.mutable_grad() = net->out->bias.grad().clamp(-1, 1);
      expect_throw<ConfigError>("the gradient of out.bias was replaced", [&] { training.step(); });
    });
  }
}

// What no backward has brought is taken as it lies there.
TEST(Misuse, GradientsThatAProgramMakesItselfCount) {
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.5);
    Distributed training(session, *net, sgd);
    const auto before = net->out->bias.detach().clone();
    net->out->bias.mutable_grad() = torch::full({3}, session.rank() == 0 ? 1.0F : 3.0F);
    training.step();
    EXPECT_TRUE(torch::allclose(net->out->bias, before - 0.5 * 2));
    EXPECT_FALSE(net->out->bias.grad().defined());
    training.step();
    EXPECT_TRUE(torch::allclose(net->out->bias, before - 0.5 * 2)) << "nothing was brought, nothing is left";
  });
}

TEST(Misuse, GradientsThatAreDroppedAfterTheyHaveLeftCountAllTheSame) {
  std::vector<torch::Tensor> results(2);
  for (const bool dropped : {false, true}) {
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Net net(1.0);
      torch::optim::SGD sgd(net->parameters(), 0.5);
      Distributed training(session, *net, sgd);
      loss_of(net, samples(session.rank(), 1)).backward();
      if (dropped) {
        for (auto& p : net->parameters()) p.mutable_grad().reset();
      }
      training.step();
      if (session.rank() == 0) results[dropped ? 1 : 0] = flat(net->parameters()).clone();
    });
  }
  EXPECT_TRUE(torch::equal(results[0], results[1]));
}

TEST(Misuse, GroupsThatNoLongerAreAlikeAreRefused) {
  const std::vector<std::function<void(torch::optim::SGD&)>> changes = {
      [](auto& sgd) { sgd.param_groups()[1].options().set_lr(0); },
      [](auto& sgd) {
        for (auto& group : sgd.param_groups())
          static_cast<torch::optim::SGDOptions&>(group.options()).momentum(0.5);
      }};
  for (const auto& change : changes) {
    run_sessions(1, net::Medium::memory, [&](Session& session) {
      Net net(1.0);
      torch::optim::SGD sgd({torch::optim::OptimizerParamGroup(net->hidden->parameters()),
                             torch::optim::OptimizerParamGroup(net->out->parameters())},
                            torch::optim::SGDOptions(0.1));
      Distributed training(session, *net, sgd);
      loss_of(net, samples(0, 1)).backward();
      training.step();
      change(sgd);
      expect_throw<std::exception>("the optimizer has changed since the training began", [&] {
        loss_of(net, samples(1, 1)).backward();
        training.step();
      });
    });
  }
}

// Each group has a rate of its own, also where a process goes on with the others.
TEST(Misuse, AProcessThatRunsOutTakesTheRatesOfEveryGroup) {
  std::vector<torch::Tensor> results(3);
  run_sessions(3, net::Medium::memory, [&](Session& session) {
    Net net(1.0);
    using Group = torch::optim::OptimizerParamGroup;
    torch::optim::SGD sgd({Group(net->hidden->parameters(), std::make_unique<torch::optim::SGDOptions>(0.1)),
                           Group(net->out->parameters(), std::make_unique<torch::optim::SGDOptions>(0.01))},
                          torch::optim::SGDOptions(0.1));
    Distributed training(session, *net, sgd, {.uneven_inputs = true});
    const int steps = session.rank() == 1 ? 1 : 4;
    for (int s = 0; s < steps; ++s) {
      for (auto& group : sgd.param_groups()) group.options().set_lr(group.options().get_lr() * 0.7);
      sgd.zero_grad();
      loss_of(net, samples(s + 10 * session.rank(), 1)).backward();
      training.step();
    }
    training.finish();
    EXPECT_NEAR(sgd.param_groups()[1].options().get_lr(), 0.01 * std::pow(0.7, steps), 1e-12);
    results[static_cast<std::size_t>(session.rank())] = flat(net->parameters()).clone();
  });
  EXPECT_TRUE(torch::equal(results[0], results[1]));
  EXPECT_TRUE(torch::equal(results[0], results[2]));
}

TEST(Misuse, FinishInTheMiddleOfAStepIsRefused) {
  run_sessions(1, net::Medium::memory, [](Session& session) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd);
    loss_of(net, samples(0, 1)).backward();
    expect_throw<ConfigError>("between a backward pass and its step()", [&] { training.finish(); });
    expect_throw<RunError>("after this training had failed", [&] { training.step(); });
  });
}

// One process finds a NaN while its first buckets are on their way, catches what backward throws, and lets
// the training go: nobody hangs, and nothing is finished as if all were well.
TEST(Misuse, ATrainingThatFailedInBackwardIsOver) {
  for (const std::string strategy : {"allreduce", "ps-sync"}) {
    std::atomic<int> lost = 0;
    run_sessions(2, net::Medium::sockets, [&](Session& session) {
      Net net(1.0);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      try {
        Distributed training(session, *net, sgd, {.strategy = strategy, .bucket_bytes = 16});
        auto x = samples(0, 1);
        if (session.rank() == 1) {
          net->hidden->weight.register_hook([](const torch::Tensor& g) { return g / 0; });
        }
        loss_of(net, x).backward();
        training.step();
      } catch (const std::exception&) {
        ++lost;
      }
    });
    EXPECT_EQ(lost, 2) << strategy;
  }
}

// The server knows who has not pushed; to its worker it looks lost.
TEST(Misuse, AServerThatGivesUpSaysForWhomItWaited) {
  std::promise<void> given_up;
  run_sessions(
      2, net::Medium::memory,
      [&](Session& session) {
        Net net(1.0);
        torch::optim::SGD sgd(net->parameters(), 0.1);
        Distributed training(session, *net, sgd, {.strategy = "ps-sync", .servers = 1});
        if (session.rank() == 1) return given_up.get_future().wait();
        expect_throw<PeerError>("rank 1 did not answer in push of", [&] {
          loss_of(net, samples(0, 1)).backward();
          training.step();
        });
        given_up.set_value();
      },
      std::chrono::seconds(3));
}

TEST(Misuse, TablesThatCannotBeExchangedAreRefusedByName) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    nn::Sequential net(nn::Embedding(10, 4), nn::Linear(4, 1));
    net->to(torch::kFloat64);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    expect_throw<ConfigError>("parameter 0.weight is Double",
                              [&] { Distributed(session, *net, sgd, {.strategy = "ps-sync"}); });
  });
}

TEST(Misuse, AnEmbeddingGivesTheGradientsThatItGaveBefore) {
  for (const bool sparse : {false, true}) {
    for (const std::string strategy : {"ring", "ps-sync", "hybrid"}) {
      run_sessions(2, net::Medium::memory, [&](Session& session) {
        nn::Embedding table(nn::EmbeddingOptions(10, 4).sparse(sparse));
        nn::Sequential net(table, nn::Linear(4, 1));
        torch::optim::SGD sgd(net->parameters(), 0.1);
        {
          Distributed training(session, *net, sgd, {.strategy = strategy});
          net->forward(torch::arange(3)).mean().backward();
          training.step();
        }
        EXPECT_FALSE(table->weight.grad().defined());
        net->forward(torch::arange(3)).mean().backward();
        EXPECT_EQ(table->weight.grad().is_sparse(), sparse) << strategy;
      });
    }
  }
}

// Names are taken for good: a test may run again in the same process.
void add_once(const std::string& name, MakeStrategy make) {
  static std::set<std::string> added;
  if (added.insert(name).second) add_strategy(name, "of a test", std::move(make));
}

// Updates the buckets that it is told, so often.
class Partial final : public Strategy {
 public:
  Partial(Training& training, int first, int times) : training_(training), first_(first), times_(times) {}
  void finish_step() override {
    for (int b = first_; b < training_.buckets(); ++b) {
      auto gradients = training_.gradients(b);
      training_.workers().all_reduce(gradients);
      for (int i = 0; i < times_; ++i) training_.update(b);
    }
  }

 private:
  Training& training_;
  const int first_;
  const int times_;
};

TEST(Misuse, AStrategyThatUpdatesSomeBucketsWhereAllAreWaitedForIsRefused) {
  add_once("partial", [](Training& t) { return std::make_unique<Partial>(t, 1, 1); });
  add_once("repeating", [](Training& t) { return std::make_unique<Partial>(t, 0, 2); });
  const auto step_once = [](Session& session, const DistributedOptions& options) {
    Net net(1.0);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    Distributed training(session, *net, sgd, options);
    loss_of(net, samples(0, 1)).backward();
    training.step();
  };
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    EXPECT_NO_THROW(step_once(session, {.strategy = "partial", .bucket_bytes = 32}));
  });
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    expect_throw<ConfigError>("it must update all of them or none", [&] {
      step_once(session, {.strategy = "partial", .clip_norm = 1, .bucket_bytes = 32});
    });
  });
  run_sessions(2, net::Medium::memory, [&](Session& session) {
    expect_throw<ConfigError>("updates bucket 0 twice",
                              [&] { step_once(session, {.strategy = "repeating"}); });
  });
  EXPECT_THROW(add_strategy("nothing", "", nullptr), ConfigError);
}

// It looks at signs, and would never show that a number was NaN.
class SignVote final : public Strategy {
 public:
  SignVote(Training& training, bool early) : training_(training), early_(early) {}
  void on_gradients(int bucket) override {
    auto gradients = training_.gradients(bucket);
    gradients.copy_(gradients.gt(0));
    training_.workers().all_reduce(gradients);
    if (early_) training_.update(bucket);
  }
  void finish_step() override {
    for (int b = 0; !early_ && b < training_.buckets(); ++b) training_.update(b);
  }

 private:
  Training& training_;
  const bool early_;
};

TEST(Misuse, AStepWithANanIsSkippedUnderAStrategyThatHidesIt) {
  add_once("votes", [](Training& t) { return std::make_unique<SignVote>(t, false); });
  add_once("early votes", [](Training& t) { return std::make_unique<SignVote>(t, true); });
  for (const std::string strategy : {"votes", "early votes"}) {
    run_sessions(2, net::Medium::memory, [&](Session& session) {
      Net net(1.0);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      Distributed training(session, *net, sgd,
                           {.strategy = strategy, .skip_nonfinite = true, .bucket_bytes = 32});
      for (int s = 0; s < 3; ++s) {
        const auto before = flat(net->parameters()).clone();
        sgd.zero_grad();
        loss_of(net, s == 1 && session.rank() == 1 ? samples(s, 1) / 0 : samples(s, 1)).backward();
        training.step();
        EXPECT_EQ(torch::equal(flat(net->parameters()), before), s == 1) << strategy << " " << s;
      }
    });
  }
}

TEST(Misuse, AStrategyOfOnesOwnTakesNoUnevenInputs) {
  add_once("even", [](Training& t) { return std::make_unique<SignVote>(t, false); });
  expect_refused("inputs may not be uneven", {.strategy = "even", .uneven_inputs = true});
}

TEST(Misuse, ATensorWhoseElementsShareMemoryTakesNoResult) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    auto expanded = torch::zeros({1}).expand({4});
    expect_throw<ConfigError>("share memory", [&] { session.all_reduce(expanded); });
    expect_throw<ConfigError>("share memory", [&] { session.broadcast(expanded); });
  });
}

}  // namespace
}  // namespace tutti::library
