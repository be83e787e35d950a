// What every strategy promises, on every medium: the step that one process with all samples would make.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>

#include "base/error.h"
#include "collectives/native.h"
#include "exchange/net_fixture.h"
#include "exchange/running_exchange.h"
#include "exchange/servers.h"
#include "exchange/shard_gradients.h"
#include "exchange/strategy.h"
#include "exchange/table_rows.h"
#include "exchange/updater.h"
#include "net/group.h"
#include "net/inproc.h"

namespace tutti::exchange {
namespace {

using fixture::flat;
using fixture::Net;

constexpr auto kPatience = std::chrono::seconds(60);
constexpr std::size_t kBucketBytes = 256;  // several buckets

// Reads one row of its table for each sample; the servers' half of hybrid.
struct Reader : torch::nn::Module {
  torch::nn::Embedding words{register_module("words", torch::nn::Embedding(40, 6))};
  torch::nn::Linear a{register_module("a", torch::nn::Linear(6, 9))};
  torch::nn::Embedding out{register_module("out", torch::nn::Embedding(40, 9))};
  torch::Tensor forward(const torch::Tensor& in, const torch::Tensor& target) {
    return (torch::tanh(a(words(in))) * out(target)).sum(1);
  }
};

struct Case {
  std::string strategy;
  net::Medium medium;
  int workers;
  int servers = 0;
  bool local_aggregation = false;
  ps::Role role = ps::Role::update;
  std::vector<int> hosts = {};  // by worker, over sockets; empty: nothing is known
};

Tuning tuning_of(const Case& c, const optim::Settings& optimizer) {
  const auto& strategy = find_strategy(c.strategy);
  const std::set<int> hosts(c.hosts.begin(), c.hosts.end());
  const int pushers = c.local_aggregation ? std::max(1, static_cast<int>(hosts.size())) : c.workers;
  Tuning t{.piece_bytes = 100, .local_aggregation = c.local_aggregation, .sync_every = 1};
  t.servers = {
      .workers = pushers,
      .first_server = c.workers,
      .servers = c.servers,
      .policy = {.consistency = strategy.servers.value_or(ps::Consistency::sync), .workers = pushers},
      .role = c.role,
      .optimizer = optimizer};
  return t;
}

// On hosts the workers of which are added up, servers count ranks as `body` sees them in its last argument.
using Body = std::function<void(net::Transport&, net::Transport* neighbours, net::Transport& for_servers)>;
void run_ranks(const Case& c, const Body& body) {
  const int ranks = c.workers + c.servers;
  if (c.hosts.empty()) {
    net::run_as_threads(c.medium, ranks, kPatience, [&](net::Transport& t) { body(t, nullptr, t); });
    return;
  }
  const auto order = c.local_aggregation ? pushers_first(c.hosts, c.servers) : std::vector<Rank>();
  net::run_on_hosts(c.hosts, ranks, kPatience, [&](net::Transport& t, net::Transport* neighbours) {
    if (order.empty()) return body(t, neighbours, t);
    net::Survivors for_servers(t, order);
    body(t, neighbours, for_servers);
  });
}

struct Trained {
  std::vector<torch::Tensor> replicas;
  std::vector<double> losses;  // of rank 0's part, by step
};

// Trains for a few steps, each worker on its rows of the same data. Each phase of a step trains the
// parameters that begin with its text.
Trained train(const Case& c, int steps, optim::Kind kind, const std::vector<std::string>& phases = {""}) {
  Trained trained;
  trained.replicas.resize(static_cast<std::size_t>(c.workers));
  std::mutex torch_seed;
  const optim::Settings optimizer{.kind = kind, .lr = 0.05};
  const Tuning tuning = tuning_of(c, optimizer);
  run_ranks(c, [&](net::Transport& everyone, net::Transport* neighbours, net::Transport& for_servers) {
    const int rank = to_int(everyone.rank());
    if (rank >= c.workers) return (void)ps::serve(for_servers, tuning.servers);
    const Strategy& strategy = find_strategy(c.strategy);
    net::Group group(everyone, c.workers);
    collectives::NativeEngine all(group, algorithm_of(strategy, "auto"), {c.hosts, neighbours});
    torch::Tensor x;
    std::shared_ptr<Net> model;
    {
      const std::scoped_lock lock(torch_seed);
      torch::manual_seed(99);
      x = torch::randn({12, 7});
      torch::manual_seed(static_cast<std::uint64_t>(7 + rank));  // replicas start different
      model = std::make_shared<Net>();
    }
    const grad::Tables no_tables;
    grad::Buckets buckets(
        *model, kBucketBytes, [&](std::size_t bytes) { return all.allocate(bytes); }, no_tables, phases);
    Updater updater(buckets, no_tables, optimizer);
    observe::Trace trace(false, everyone.rank());
    const auto exchange =
        make_exchange(strategy, {buckets, no_tables, updater, for_servers, all, trace}, tuning);
    buckets.on_gradient([&](grad::ParamId id) { exchange->on_gradient(id); });
    exchange->start(0, false);
    for (int step = 1; step <= steps; ++step) {
      updater.begin_step(step, 0.05);
      const auto mine = x.chunk(c.workers)[rank];
      torch::Tensor loss;
      for (std::size_t p = 0; p < phases.size(); ++p) {
        if (p > 0) exchange->finish_phase(p - 1);
        buckets.begin_phase(p);
        loss = model->forward(mine).square().mean();
        loss.backward();
      }
      exchange->finish_step();
      if (rank == 0) trained.losses.push_back(loss.item<double>());
      EXPECT_TRUE(strategy.asynchronous || exchange->steps_done() == step);
    }
    exchange->finish(Afterwards::nothing);
    trained.replicas[static_cast<std::size_t>(rank)] = flat(*model).clone();
  });
  return trained;
}

std::string name_of(const Case& c) {
  std::string name =
      c.strategy + (c.medium == net::Medium::memory ? "Memory" : "Sockets") + std::to_string(c.workers);
  if (c.servers > 0) name += "Servers" + std::to_string(c.servers);
  if (c.local_aggregation) name += "Aggregated";
  if (c.role == ps::Role::mean) name += "Mean";
  if (!c.hosts.empty()) name += "Hosts";
  for (const int host : c.hosts) name += std::to_string(host);
  std::erase(name, '-');
  return name;
}

class ExchangeContract : public ::testing::TestWithParam<Case> {};

TEST_P(ExchangeContract, ReplicasEndEqualToTheBitAndLikeOneProcessAlone) {
  const bool by_pieces =
      GetParam().servers > 0 && GetParam().strategy != "hybrid" && GetParam().role == ps::Role::update;
  for (const auto kind : {optim::Kind::sgd, optim::Kind::adam, optim::Kind::rmsprop, optim::Kind::lamb}) {
    if (by_pieces && optim::needs_layers(kind)) continue;
    const auto together = train(GetParam(), 10, kind);
    const auto alone = train({"local", net::Medium::memory, 1}, 10, kind).replicas[0];
    for (const auto& r : together.replicas) {
      EXPECT_TRUE(torch::equal(r, together.replicas[0]));
      EXPECT_TRUE(torch::allclose(r, alone, 1e-4, 1e-5)) << (r - alone).abs().max();
    }
    if (GetParam().servers == 0) continue;
    const auto reference = train({"allreduce", net::Medium::memory, GetParam().workers}, 10, kind);
    for (std::size_t i = 0; i < reference.losses.size(); ++i) {
      EXPECT_NEAR(together.losses[i], reference.losses[i], 1e-5) << "step " << i;
    }
  }
}

// The same by torch's own optimizer, one a phase.
torch::Tensor train_plainly(int steps, const std::vector<std::string>& phases) {
  torch::manual_seed(99);
  const auto x = torch::randn({12, 7});
  torch::manual_seed(7);
  Net model;
  for (int step = 0; step < steps; ++step) {
    for (const std::string& begin : phases) {
      std::vector<torch::Tensor> trained;
      for (const auto& item : model.named_parameters()) {
        if (item.key().starts_with(begin)) trained.push_back(item.value());
      }
      torch::optim::SGD sgd(trained, 0.05);
      model.zero_grad();
      model.forward(x).square().mean().backward();
      sgd.step();
    }
  }
  return flat(model);
}

TEST_P(ExchangeContract, APhaseSeesWhatThoseBeforeItHaveLearned) {
  const std::vector<std::string> phases = {"b.", "a.", "c."};
  constexpr int kSteps = 60;
  const auto plain = train_plainly(kSteps, phases);
  EXPECT_FALSE(torch::allclose(train_plainly(kSteps, {""}), plain, 1e-4, 1e-5)) << "nothing would be seen";
  for (const auto& r : train(GetParam(), kSteps, optim::Kind::sgd, phases).replicas) {
    EXPECT_TRUE(torch::allclose(r, plain, 1e-4, 1e-5)) << (r - plain).abs().max();
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    if (medium == net::Medium::memory) all.push_back({"local", medium, 1});
    for (const char* strategy : {"ring", "allreduce", "reduce-broadcast"}) {
      for (const int workers : {1, 2, 3, 4}) all.push_back({strategy, medium, workers});
    }
    for (const int workers : {2, 3, 4}) {
      for (const int servers : {1, 2, 3}) {
        for (const bool aggregated : {false, true})
          all.push_back({"ps-sync", medium, workers, servers, aggregated});
      }
      all.push_back({"ps-sync", medium, workers, 2, false, ps::Role::mean});
      all.push_back({"ps-sync", medium, workers, 2, true, ps::Role::mean});
      all.push_back({"hybrid", medium, workers, 1});
    }
  }
  // Dealt to hosts in turn, in blocks, and so that one has more than the other.
  for (const std::vector<int>& hosts :
       {std::vector{0, 1, 0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 0, 1}}) {
    const auto workers = static_cast<int>(hosts.size());
    const auto add = [&](Case c) {
      c.hosts = hosts;
      all.push_back(std::move(c));
    };
    add({"allreduce", net::Medium::sockets, workers});
    add({"ring", net::Medium::sockets, workers});
    add({"ps-sync", net::Medium::sockets, workers, 2});
    for (const auto role : {ps::Role::update, ps::Role::mean}) {
      add({"ps-sync", net::Medium::sockets, workers, 2, true, role});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeContract, ::testing::ValuesIn(cases()),
                         [](const auto& p) { return name_of(p.param); });

// Ten steps of the network with tables. Tables go by rows where `sparse`.
Trained train_reader(const Case& c, bool sparse, optim::Kind kind) {
  Trained trained;
  trained.replicas.resize(static_cast<std::size_t>(c.workers));
  std::mutex torch_seed;
  const optim::Settings optimizer{.kind = kind, .lr = 0.05};
  Tuning tuning = tuning_of(c, optimizer);
  tuning.partitions = 3;
  net::run_as_threads(c.medium, c.workers + c.servers, kPatience, [&](net::Transport& everyone) {
    const int rank = to_int(everyone.rank());
    if (rank >= c.workers) return (void)ps::serve(everyone, tuning.servers);
    net::Group group(everyone, c.workers);
    collectives::NativeEngine all(group);
    std::vector<torch::Tensor> batches;
    std::shared_ptr<Reader> model;
    {
      const std::scoped_lock lock(torch_seed);
      torch::manual_seed(99);
      for (int i = 0; i < 22; ++i) batches.push_back(torch::randint(40, {12}, torch::kInt64));
      torch::manual_seed(static_cast<std::uint64_t>(7 + rank));
      model = std::make_shared<Reader>();
    }
    const std::vector<std::string> names =
        sparse ? grad::embedding_names(*model) : std::vector<std::string>{};
    grad::Tables tables(*model, names);
    grad::Buckets buckets(
        *model, kBucketBytes, [&](std::size_t bytes) { return all.allocate(bytes); }, tables);
    Updater updater(buckets, tables, optimizer);
    observe::Trace trace(false, everyone.rank());
    const auto exchange =
        make_exchange(find_strategy(c.strategy), {buckets, tables, updater, everyone, all, trace}, tuning);
    buckets.on_gradient([&](grad::ParamId id) { exchange->on_gradient(id); });
    tables.on_gradient([&](std::size_t table) { exchange->rows()->on_gradient(table); });
    exchange->start(0, false);
    const auto mine = [&](int i) { return batches[static_cast<std::size_t>(i)].chunk(c.workers)[rank]; };
    for (int step = 1; step <= 10; ++step) {
      updater.begin_step(step, 0.05);
      const auto in = mine(2 * step - 2);
      const auto loss = (model->forward(in, mine(2 * step - 1)) - 1).square().mean();
      loss.backward();
      if (auto* rows = exchange->rows()) {
        for (const int table : {0, 1}) {
          const auto next = mine(2 * step + table).contiguous();
          rows->expect(static_cast<std::size_t>(table),
                       {next.data_ptr<std::int64_t>(), static_cast<std::size_t>(next.numel())});
        }
      }
      exchange->finish_step();
      if (rank == 0) trained.losses.push_back(loss.item<double>());
    }
    exchange->finish(Afterwards::nothing);
    if (sparse) {
      for (const double d : exchange->rows()->take_densities()) EXPECT_LT(d, 12.5 / 40 / c.workers);
    }
    trained.replicas[static_cast<std::size_t>(rank)] = flat(*model).clone();
  });
  return trained;
}

class SparseExchange : public ::testing::TestWithParam<Case> {};

// Rules that leave a row alone which has no gradient are the same for rows and for whole tables.
TEST_P(SparseExchange, RowsMakeTheStepsThatWholeTablesByAllReduceMake) {
  for (const auto kind : {optim::Kind::sgd, optim::Kind::adagrad}) {
    const auto rows = train_reader(GetParam(), true, kind);
    const auto whole = train_reader({"allreduce", net::Medium::memory, GetParam().workers}, false, kind);
    for (std::size_t i = 0; i < whole.losses.size(); ++i) {
      EXPECT_NEAR(rows.losses[i], whole.losses[i], 1e-5) << "step " << i;
    }
    for (const auto& r : rows.replicas) {
      EXPECT_TRUE(torch::equal(r, rows.replicas[0]));
      EXPECT_TRUE(torch::allclose(r, whole.replicas[0], 1e-4, 1e-5));
    }
  }
}

std::vector<Case> sparse_cases() {
  std::vector<Case> all;
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const int workers : {2, 3, 4}) {
      for (const int servers : {1, 2}) {
        for (const char* strategy : {"hybrid", "ps-sync"})
          all.push_back({strategy, medium, workers, servers});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, SparseExchange, ::testing::ValuesIn(sparse_cases()),
                         [](const auto& p) { return name_of(p.param); });

// Exchanges that promise less than one process alone would do: they learn, and in the end all replicas are
// equal.
class LooseExchange : public ::testing::TestWithParam<Case> {};

TEST_P(LooseExchange, LearnsAndReplicasEndEqual) {
  const auto trained = train(GetParam(), 60, optim::Kind::sgd);
  for (const auto& r : trained.replicas) EXPECT_TRUE(torch::equal(r, trained.replicas[0]));
  EXPECT_LT(trained.losses.back(), 0.7 * trained.losses.front());
}

TEST_P(LooseExchange, LearnsInPhases) {
  const auto trained = train(GetParam(), 60, optim::Kind::sgd, {"b.", "a.", "c."});
  for (const auto& r : trained.replicas) EXPECT_TRUE(torch::equal(r, trained.replicas[0]));
  EXPECT_LT(trained.losses.back(), 0.7 * trained.losses.front());
}

std::vector<Case> loose_cases() {
  std::vector<Case> all;
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const char* strategy : {"ps-async", "ps-ssp"}) {
      for (const int servers : {1, 2}) all.push_back({strategy, medium, 3, servers});
    }
    for (const char* strategy : {"easgd", "local-sgd"}) all.push_back({strategy, medium, 3});
  }
  all.push_back({"hogwild", net::Medium::memory, 3});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, LooseExchange, ::testing::ValuesIn(loose_cases()),
                         [](const auto& p) { return name_of(p.param); });

TEST(Exchange, RankThatDiesInMidStepEndsFinishStepOfTheOthers) {
  net::run_as_threads(net::Medium::memory, 2, kPatience, [](net::Transport& t) {
    collectives::NativeEngine all(t);
    Net model;
    grad::Buckets buckets(model, kBucketBytes, [&](std::size_t bytes) { return all.allocate(bytes); });
    if (t.rank() == Rank{1}) return;
    const grad::Tables no_tables;
    Updater updater(buckets, no_tables, optim::Settings{});
    observe::Trace trace(false, t.rank());
    const auto exchange =
        make_exchange(find_strategy("allreduce"), {buckets, no_tables, updater, t, all, trace}, {});
    updater.begin_step(17, 0.1);
    try {
      exchange->finish_step();
      ADD_FAILURE();
    } catch (const PeerLost& e) {
      EXPECT_EQ(e.fault.operation, "all-reduce of bucket 0, step 17");
    }
  });
}

TEST(Strategy, UnknownNamesListTheKnownOnes) {
  try {
    find_strategy("telepathy");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("reduce-broadcast"), std::string::npos);
  }
  EXPECT_THROW(algorithm_of(find_strategy("ring"), "tree"), ConfigError);
  EXPECT_THROW(algorithm_of(find_strategy("allreduce"), "zigzag"), ConfigError);
}

TEST(Strategy, GradientsAreAddedUpOverWorkersThatKeepStepWithTheSameParameters) {
  net::run_as_threads(net::Medium::memory, 2, kPatience, [](net::Transport& t) {
    const collectives::NativeEngine all(t);
    for (const char* name : {"allreduce", "ring", "reduce-broadcast", "ps-sync", "hybrid"}) {
      EXPECT_EQ(finite_options(find_strategy(name), {}, all).summed_over, 2) << name;
    }
    for (const char* name : {"local", "local-sgd", "easgd", "hogwild", "ps-async", "ps-ssp"}) {
      EXPECT_EQ(finite_options(find_strategy(name), {}, all).summed_over, 1) << name;
    }
  });
}

TEST(Strategy, SaysHowManyServersThereAreAndWhatTheyDo) {
  net::run_as_threads(net::Medium::memory, 1, kPatience, [](net::Transport& t) {
    const collectives::NativeEngine all(t);
    Tuning tuning = tuning_of({"ps-sync", net::Medium::memory, 3, 2}, {});
    const auto said = [&] { return describe(find_strategy("ps-sync"), all, tuning, 1000); };
    EXPECT_EQ(said(), "2 servers that update");
    tuning.servers.policy.backup = 1;
    EXPECT_EQ(said(), "2 servers that update, 1 backup");
    tuning.servers = {.servers = 1, .role = ps::Role::mean};
    tuning.local_aggregation = true;
    EXPECT_EQ(said(), "1 server that only averages, one push a host");
  });
}

// Steps between two synchronisations exchange nothing, and say so.
TEST(Exchange, TimesOfAStepAreThoseOfItsOwnMeeting) {
  net::run_as_threads(net::Medium::memory, 2, kPatience, [](net::Transport& t) {
    collectives::NativeEngine all(t);
    Net model;
    const grad::Tables no_tables;
    grad::Buckets buckets(model, kBucketBytes, [&](std::size_t bytes) { return all.allocate(bytes); });
    Updater updater(buckets, no_tables, optim::Settings{.lr = 0.1});
    observe::Trace trace(false, t.rank());
    Tuning tuning = tuning_of({"local-sgd", net::Medium::memory, 2}, {.lr = 0.1});
    tuning.sync_every = 2;
    const auto exchange =
        make_exchange(find_strategy("local-sgd"), {buckets, no_tables, updater, t, all, trace}, tuning);
    exchange->start(0, false);
    for (int step = 1; step <= 4; ++step) {
      updater.begin_step(step, 0.1);
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        for (const auto& slice : buckets.layout(b).slices) exchange->on_gradient(slice.param);
      }
      exchange->finish_step();
      EXPECT_EQ(exchange->times().busy > Clock::duration::zero(), step % 2 == 0) << step;
    }
    exchange->finish(Afterwards::nothing);
  });
}

}  // namespace
}  // namespace tutti::exchange
