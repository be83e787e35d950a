// Trainings on several hosts, whose ranks have shared memory inside.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "library/distributed_fixture.h"

namespace tutti::library {
namespace {

class KeepsStepOnHosts : public testing::TestWithParam<std::tuple<std::string, std::vector<int>>> {};

INSTANTIATE_TEST_SUITE_P(
    Strategies, KeepsStepOnHosts,
    testing::Combine(testing::Values("ring", "allreduce", "reduce-broadcast", "ps-sync", "hybrid", kOwnMean),
                     testing::Values(std::vector{0, 0, 1, 1}, std::vector{0, 1, 0}, std::vector{0, 1, 2})),
    [](const auto& i) {
      std::string name = std::get<0>(i.param) + "_";
      for (const int host : std::get<1>(i.param)) name += std::to_string(host);
      std::erase(name, '-');
      return name;
    });

TEST_P(KeepsStepOnHosts, AsOneProcessWithAllSamples) {
  const auto& [strategy, hosts] = GetParam();
  const auto adam = make<torch::optim::Adam>(torch::optim::AdamOptions(0.01));
  expect_reference(distributed_on(hosts, adam, {.strategy = strategy}),
                   reference(static_cast<int>(hosts.size()), adam));
}

// What each of two processes on each of two hosts sends in a step.
std::vector<std::uint64_t> sent_by_servers(DistributedOptions options) {
  options.strategy = "ps-sync";
  options.servers = 1;
  std::vector<std::uint64_t> sent(4);
  run_sessions_on({0, 0, 1, 1}, [&](Session& session) {
    Net net(1.0);
    torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
    Distributed training(session, *net, adam, options);
    const auto backward = [&] { loss_of(net, samples(0, 1)).backward(); };
    if (options.shards == 0) {
      backward();
    } else {
      for ([[maybe_unused]] const int shard : training.shards()) backward();
    }
    training.step();
    training.finish();
    sent[static_cast<std::size_t>(session.rank())] = training.bytes_sent();
  });
  return sent;
}

TEST(OnHosts, ProcessesOfAHostPushAsOne) {
  const auto sent = sent_by_servers({});
  // All send as much inside their host, and the first of each as much again to the server.
  EXPECT_GT(sent[1], 0U);
  EXPECT_EQ(sent, (std::vector{2 * sent[1], sent[1], 2 * sent[1], sent[1]}));
  EXPECT_EQ(sent_by_servers({.clip_norm = 1}), sent) << "of means, too";
}

TEST(OnHosts, ProcessesPushThemselvesWhereTheyMustBeToldApart) {
  for (const DistributedOptions& options :
       {DistributedOptions{.uneven_inputs = true}, {.skip_nonfinite = true}, {.shards = 4}}) {
    const auto sent = sent_by_servers(options);
    EXPECT_GT(sent[0], 0U);
    EXPECT_EQ(sent, std::vector(4, sent[0])) << options.shards << options.uneven_inputs;
  }
  // Means are whole before they are used.
  const auto skipping_means = sent_by_servers({.clip_norm = 1, .skip_nonfinite = true});
  EXPECT_EQ(skipping_means[0], 2 * skipping_means[1]);
}

// Whichever of a host's processes has it; where means are formed of hosts' sums, too.
TEST(OnHosts, AStepWithANumberThatIsNoneIsLeftOutByAll) {
  for (const DistributedOptions& options :
       {DistributedOptions{.strategy = "allreduce", .skip_nonfinite = true},
        {.strategy = "ps-sync", .skip_nonfinite = true},
        {.strategy = "ps-sync", .clip_norm = 1, .skip_nonfinite = true}}) {
    run_sessions_on({0, 0, 1, 1}, [&](Session& session) {
      Net net(1.0);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      Distributed training(session, *net, sgd, options);
      const auto before = flat(net->parameters()).clone();
      for (const int step : {0, 1}) {
        sgd.zero_grad();
        loss_of(net, samples(step, 1) / (step == 0 && session.rank() == 3 ? 0 : 1)).backward();
        training.step();
        EXPECT_EQ(torch::equal(flat(net->parameters()), before), step == 0) << options.strategy;
      }
      training.finish();
      EXPECT_TRUE(flat(net->parameters()).isfinite().all().item<bool>());
    });
  }
}

}  // namespace
}  // namespace tutti::library
