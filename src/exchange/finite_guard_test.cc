// What no strategy may do, on any medium: let a number that is none (NaN, infinities) into the parameters.
#include "exchange/finite_guard.h"

#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <set>

#include "base/error.h"
#include "collectives/native.h"
#include "exchange/running_exchange.h"
#include "exchange/strategy.h"
#include "exchange/table_rows.h"
#include "exchange/updater.h"
#include "net/group.h"
#include "net/inproc.h"

namespace tutti::exchange {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);
constexpr std::size_t kBucketBytes = 64;  // a tensor each
constexpr int kSteps = 6;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Net : torch::nn::Module {
  torch::nn::Linear a{register_module("a", torch::nn::Linear(7, 9))};
  torch::nn::Linear b{register_module("b", torch::nn::Linear(9, 5))};
  torch::nn::Linear c{register_module("c", torch::nn::Linear(5, 3))};
  torch::Tensor forward(const torch::Tensor& x) { return c(torch::relu(b(torch::relu(a(x))))); }
};

// Reads a row of its table for each sample.
struct Reader : torch::nn::Module {
  torch::nn::Embedding words{register_module("words", torch::nn::Embedding(40, 6))};
  torch::nn::Linear a{register_module("a", torch::nn::Linear(6, 9))};
  torch::Tensor forward(const torch::Tensor& in) { return torch::tanh(a(words(in))); }
};

struct Case {
  std::string strategy;
  net::Medium medium = net::Medium::memory;
  int workers = 2;
  int servers = 0;
  bool local_aggregation = false;
  ps::Role role = ps::Role::update;
  int backup = 0;
};

std::string name_of(const Case& c) {
  std::string name =
      c.strategy + (c.medium == net::Medium::memory ? "Memory" : "Sockets") + std::to_string(c.workers);
  if (c.servers > 0) name += "Servers" + std::to_string(c.servers);
  if (c.local_aggregation) name += "Aggregated";
  if (c.role == ps::Role::mean) name += "Mean";
  if (c.backup > 0) name += "Backup" + std::to_string(c.backup);
  std::erase(name, '-');
  return name;
}

// What goes wrong: a number in the gradient of a tensor, or the loss (tensor "").
struct Fault {
  int rank = 0;
  int step = 3;
  std::string tensor = "b.weight";
  float value = kNaN;
};

struct Trial {
  Case where;
  std::optional<Fault> fault = std::nullopt;
  OnNonFinite policy = OnNonFinite::skip;
  optim::Kind kind = optim::Kind::adam;
  double clip_norm = 0;
  bool with_table = false;
  std::vector<std::string> phases = {""};
  std::set<int> left_out = {};  // steps that nobody makes
};

torch::Tensor flat(const torch::nn::Module& m) {
  std::vector<torch::Tensor> parts;
  for (const auto& p : m.parameters()) parts.push_back(p.detach().flatten());
  return torch::cat(parts);
}

// As one worker has seen it.
struct Seen {
  std::vector<torch::Tensor> parameters;  // before the first step and after each
  std::vector<torch::Tensor> state;       // likewise; rank 0's
  std::set<int> skipped;                  // steps
  std::string found;                      // in the first of them
  std::int64_t steps_done = 0;
  std::string nonfinite;  // what it threw, if that
  bool failed = false;    // it threw something
};

// One worker's run. Everything is made here, as a worker makes it.
class Worker {
 public:
  Worker(const Trial& run, const Tuning& tuning, net::Transport& everyone, std::mutex& torch_seed, Seen& seen)
      : run_(run),
        tuning_(tuning),
        everyone_(everyone),
        seen_(seen),
        rank_(to_int(everyone.rank())),
        group_(everyone, run.where.workers),
        all_(group_, algorithm_of(strategy_, "auto")) {
    const std::scoped_lock lock(torch_seed);
    torch::manual_seed(99);
    x_ = torch::randn({12, 7});
    for (int i = 0; i <= kSteps; ++i) words_.push_back(torch::randint(40, {12}, torch::kInt64));
    torch::manual_seed(static_cast<std::uint64_t>(7 + rank_));
    net_ = std::make_shared<Net>();
    reader_ = std::make_shared<Reader>();
  }

  void train() {
    torch::nn::Module& model = run_.with_table ? static_cast<torch::nn::Module&>(*reader_) : *net_;
    const std::vector<std::string> names =
        run_.with_table ? grad::embedding_names(model) : std::vector<std::string>{};
    grad::Tables tables(model, names);
    grad::Buckets buckets(
        model, kBucketBytes, [&](std::size_t bytes) { return all_.allocate(bytes); }, tables, run_.phases);
    Updater updater(buckets, tables, tuning_.servers.optimizer, run_.clip_norm,
                    finite_options(strategy_, tuning_, all_));
    observe::Trace trace(false, everyone_.rank());
    const auto exchange =
        make_exchange(strategy_, {buckets, tables, updater, everyone_, all_, trace}, tuning_);
    buckets.on_gradient([&](grad::ParamId id) {
      spoil(model, buckets.name_of(id));
      exchange->on_gradient(id);
    });
    tables.on_gradient([&](std::size_t table) {
      spoil(model, tables.name(table));
      exchange->rows()->on_gradient(table);
    });
    exchange->start(0, false);
    note(model, updater, *exchange);
    for (step_ = 1; step_ <= kSteps; ++step_) {
      if (run_.left_out.contains(step_)) continue;
      updater.begin_step(step_, 0.05);
      for (std::size_t p = 0; p < run_.phases.size(); ++p) {
        if (p > 0) exchange->finish_phase(p - 1);
        buckets.begin_phase(p);
        const torch::Tensor loss = this->loss();
        if (fails_here("")) updater.finite().loss(p, run_.fault->value);
        loss.backward();
      }
      expect_rows(*exchange);
      exchange->finish_step();
      if (updater.finite().skipped()) {
        if (seen_.skipped.empty()) seen_.found = updater.finite().found();
        seen_.skipped.insert(step_);
      }
      note(model, updater, *exchange);
    }
    seen_.steps_done = exchange->steps_done();
    exchange->finish(Afterwards::nothing);
    note(model, updater, *exchange);
  }

 private:
  torch::Tensor mine(const torch::Tensor& all) const { return all.chunk(run_.where.workers)[rank_]; }

  torch::Tensor loss() {
    if (!run_.with_table) return net_->forward(mine(x_)).square().mean();
    return (reader_->forward(mine(words_[static_cast<std::size_t>(step_ - 1)])) - 1).square().mean();
  }

  void expect_rows(RunningExchange& exchange) const {
    if (exchange.rows() == nullptr) return;
    const auto next = mine(words_[static_cast<std::size_t>(step_)]).contiguous();
    exchange.rows()->expect(0, {next.data_ptr<std::int64_t>(), static_cast<std::size_t>(next.numel())});
  }

  bool fails_here(const std::string& tensor) const {
    return run_.fault && run_.fault->rank == rank_ && run_.fault->step == step_ &&
           run_.fault->tensor == tensor;
  }

  // The last number of the gradient.
  void spoil(const torch::nn::Module& model, const std::string& name) const {
    if (!fails_here(name)) return;
    const torch::NoGradGuard no_grad;
    torch::Tensor grad = model.named_parameters()[name].mutable_grad();
    torch::Tensor values = grad.is_sparse() ? grad._values() : grad;
    values.flatten()[-1].fill_(run_.fault->value);
  }

  void note(const torch::nn::Module& model, Updater& updater, RunningExchange& exchange) {
    if (strategy_.asynchronous && run_.where.workers > 1)
      return seen_.parameters.push_back(flat(model).clone());
    const bool finished = step_ > kSteps;  // and everything fetched
    if (exchange.rows() != nullptr && !finished) exchange.rows()->fetch_all();
    seen_.parameters.push_back(flat(model).clone());
    if (rank_ != 0) return;
    if (!finished) exchange.fetch_state();
    std::vector<torch::Tensor> state{torch::zeros({1})};
    for (const auto& slot : updater.state()) {
      for (const auto& list : {slot.buckets, slot.tables}) {
        for (const auto& s : list)
          state.push_back(torch::from_blob(s.data(), {static_cast<std::int64_t>(s.size())}).clone());
      }
    }
    seen_.state.push_back(torch::cat(state));
  }

  const Trial& run_;
  const Tuning& tuning_;
  net::Transport& everyone_;
  Seen& seen_;
  const int rank_;
  const Strategy& strategy_ = find_strategy(run_.where.strategy);
  net::Group group_;
  collectives::NativeEngine all_;
  torch::Tensor x_;
  std::vector<torch::Tensor> words_;  // by step
  std::shared_ptr<Net> net_;
  std::shared_ptr<Reader> reader_;
  int step_ = 0;
};

// By worker.
std::vector<Seen> train(const Trial& run) {
  const Case& c = run.where;
  const int pushers = c.local_aggregation ? 1 : c.workers;
  Tuning tuning{.piece_bytes = 100,
                .partitions = 3,
                .local_aggregation = c.local_aggregation,
                .sync_every = 2 * kSteps,
                .clip_norm = run.clip_norm,
                .on_nonfinite = run.policy};
  tuning.servers = {
      .workers = pushers,
      .first_server = c.workers,
      .servers = c.servers,
      .policy = {.consistency = find_strategy(c.strategy).servers.value_or(ps::Consistency::sync),
                 .workers = pushers,
                 .backup = c.backup,
                 .staleness = 2},
      .role = c.role,
      .optimizer = {.kind = run.kind, .lr = 0.05}};
  std::vector<Seen> all(static_cast<std::size_t>(c.workers));
  std::mutex torch_seed;
  net::run_as_threads(c.medium, c.workers + c.servers, kPatience, [&](net::Transport& everyone) {
    const auto rank = static_cast<std::size_t>(to_int(everyone.rank()));
    const bool serves = rank >= all.size();
    try {
      if (serves) return (void)ps::serve(everyone, tuning.servers);
      Worker(run, tuning, everyone, torch_seed, all[rank]).train();
    } catch (const NonFinite& e) {
      ASSERT_FALSE(serves) << e.what();
      all[rank].nonfinite = e.what();
      all[rank].failed = true;
    } catch (const RunError& e) {
      ASSERT_EQ(run.policy, OnNonFinite::stop) << e.what();
      if (!serves) all[rank].failed = true;
    }
  });
  return all;
}

bool all_numbers(const torch::Tensor& t) {
  return t.isfinite().all().item<bool>();
}

// Workers keep step, and all have the same parameters.
class FiniteTogether : public ::testing::TestWithParam<Case> {};
class FiniteSums : public ::testing::TestWithParam<Case> {};
class FiniteClipped : public ::testing::TestWithParam<Case> {};

std::vector<Case> together() {
  std::vector<Case> all;
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const char* strategy : {"ring", "allreduce", "reduce-broadcast"}) {
      for (const int workers : {2, 3}) all.push_back({strategy, medium, workers});
    }
    all.push_back({"ps-sync", medium, 2, 1});
    all.push_back({"ps-sync", medium, 3, 2});
    all.push_back({"ps-sync", medium, 2, 2, false, ps::Role::mean});
    all.push_back({"ps-sync", medium, 3, 2, true, ps::Role::mean});
    all.push_back({"hybrid", medium, 3, 1});
  }
  all.push_back({"local", net::Medium::memory, 1});
  return all;
}

std::vector<Case> several_workers() {
  auto all = together();
  std::erase_if(all, [](const Case& c) { return c.workers == 1; });
  return all;
}

// Where servers update, workers clip alone, and the strategy is refused.
std::vector<Case> clipped_together() {
  auto all = together();
  std::erase_if(all, [](const Case& c) { return c.strategy == "ps-sync" && c.role == ps::Role::update; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FiniteTogether, ::testing::ValuesIn(together()),
                         [](const auto& p) { return name_of(p.param); });
INSTANTIATE_TEST_SUITE_P(All, FiniteSums, ::testing::ValuesIn(several_workers()),
                         [](const auto& p) { return name_of(p.param); });
INSTANTIATE_TEST_SUITE_P(All, FiniteClipped, ::testing::ValuesIn(clipped_together()),
                         [](const auto& p) { return name_of(p.param); });

// The step has left no trace: neither in it nor behind it.
void expect_skipped(const Trial& run) {
  const auto seen = train(run);
  Trial without = run;
  without.where = {run.where.workers == 1 ? "local" : "allreduce", net::Medium::memory, run.where.workers};
  without.fault.reset();
  without.left_out = {run.fault->step};
  const bool rows = run.with_table;
  const auto reference = rows ? std::vector<Seen>() : train(without);
  const auto at = static_cast<std::size_t>(run.fault->step);
  for (std::size_t r = 0; r < seen.size(); ++r) {
    ASSERT_FALSE(seen[r].failed) << r << seen[r].nonfinite;
    EXPECT_EQ(seen[r].skipped, std::set<int>{run.fault->step}) << r;
    EXPECT_EQ(seen[r].found.empty(), static_cast<int>(r) != run.fault->rank) << seen[r].found;
    EXPECT_EQ(seen[r].steps_done, kSteps) << "a step that is skipped counts";
    EXPECT_TRUE(torch::equal(seen[r].parameters[at], seen[r].parameters[at - 1])) << r;
    EXPECT_FALSE(torch::equal(seen[r].parameters[at + 1], seen[r].parameters[at])) << "it does not go on";
    EXPECT_TRUE(torch::equal(seen[r].parameters.back(), seen[0].parameters.back())) << r;
    EXPECT_TRUE(all_numbers(seen[r].parameters.back()));
    if (rows) continue;
    EXPECT_TRUE(torch::allclose(seen[r].parameters.back(), reference[0].parameters.back(), 1e-4, 1e-5))
        << (seen[r].parameters.back() - reference[0].parameters.back()).abs().max();
    if (run.where.workers > 2) continue;  // sums of two have the same bits in every order
    EXPECT_TRUE(torch::equal(seen[r].parameters.back(), reference[0].parameters.back()));
  }
  EXPECT_TRUE(torch::equal(seen[0].state[at], seen[0].state[at - 1]));
  EXPECT_FALSE(torch::equal(seen[0].state[at + 1], seen[0].state[at]));
}

TEST_P(FiniteTogether, AStepWithSuchAGradientIsSkippedByAllAndCounts) {
  const int last = GetParam().workers - 1;
  for (const float value : {kNaN, -kInf}) {
    expect_skipped({.where = GetParam(), .fault = Fault{.rank = last, .value = value}});
  }
  expect_skipped({.where = GetParam(), .fault = Fault{.step = 1, .tensor = "c.bias"}});
}

TEST_P(FiniteTogether, AStepWithSuchALossIsSkippedByAllAndCounts) {
  const int last = GetParam().workers - 1;
  expect_skipped({.where = GetParam(), .fault = Fault{.rank = last, .tensor = "", .value = kInf}});
}

TEST_P(FiniteSums, NumbersThatWouldOverflowTogetherAreNotUsed) {
  expect_skipped({.where = GetParam(), .fault = Fault{.value = std::numeric_limits<float>::max()}});
}

TEST_P(FiniteClipped, GradientsAreSkippedAlike) {
  expect_skipped({.where = GetParam(), .fault = Fault{}, .clip_norm = 0.1});
}

// Of a step that takes turns only the phase that cannot be used is left out.
TEST_P(FiniteTogether, APhaseIsSkippedByItself) {
  const Trial run{.where = GetParam(),
                  .fault = Fault{.rank = GetParam().workers - 1, .tensor = "a.weight"},
                  .phases = {"b.", "a.", "c."}};
  const auto part = [](const torch::Tensor& all, const std::string& layer) {
    const std::int64_t a = 7 * 9 + 9;
    const std::int64_t b = 9 * 5 + 5;
    if (layer == "a") return all.slice(0, 0, a);
    return layer == "b" ? all.slice(0, a, a + b) : all.slice(0, a + b);
  };
  for (const Seen& s : train(run)) {
    ASSERT_FALSE(s.failed) << s.nonfinite;
    EXPECT_EQ(s.skipped, std::set<int>{3});
    EXPECT_TRUE(torch::equal(part(s.parameters[3], "a"), part(s.parameters[2], "a")));
    EXPECT_FALSE(torch::equal(part(s.parameters[3], "b"), part(s.parameters[2], "b")));
    EXPECT_FALSE(torch::equal(part(s.parameters[3], "c"), part(s.parameters[2], "c")));
    EXPECT_TRUE(all_numbers(s.parameters.back()));
  }
}

// Every strategy, also those whose workers go their own ways.
class FiniteStop : public ::testing::TestWithParam<Case> {};

std::vector<Case> every() {
  std::vector<Case> all = together();
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    all.push_back({"ps-sync", medium, 2, 2, true});
    all.push_back({"ps-sync", medium, 3, 2, false, ps::Role::update, 1});
    for (const char* strategy : {"ps-async", "ps-ssp"}) all.push_back({strategy, medium, 2, 2});
    for (const char* strategy : {"easgd", "local-sgd"}) all.push_back({strategy, medium, 2});
  }
  all.push_back({"hogwild", net::Medium::memory, 2});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FiniteStop, ::testing::ValuesIn(every()),
                         [](const auto& p) { return name_of(p.param); });

TEST_P(FiniteStop, TheRankThatMadeItEndsAndNamesItselfAndTheTensor) {
  const int last = GetParam().workers - 1;
  for (const float value : {kNaN, kInf}) {
    const auto seen = train(
        {.where = GetParam(), .fault = Fault{.rank = last, .value = value}, .policy = OnNonFinite::stop});
    for (int r = 0; r < GetParam().workers; ++r) {
      const Seen& s = seen[static_cast<std::size_t>(r)];
      EXPECT_EQ(s.nonfinite.empty(), r != last) << s.nonfinite;
      for (const auto& p : s.parameters) EXPECT_TRUE(all_numbers(p));
    }
    EXPECT_TRUE(seen.back().nonfinite.starts_with(
        fmt::format("rank {}: step 3: the gradient of b.weight holds {} (first at element 44); ", last,
                    std::isnan(value) ? "nan" : "inf")))
        << seen.back().nonfinite;
  }
  const auto seen =
      train({.where = GetParam(), .fault = Fault{.rank = last, .tensor = ""}, .policy = OnNonFinite::stop});
  EXPECT_TRUE(seen.back().nonfinite.starts_with(fmt::format("rank {}: step 3: the loss is nan; ", last)))
      << seen.back().nonfinite;
}

// Workers that decide alone: a step of one of them is left out, and nobody else's.
class FiniteAlone : public ::testing::TestWithParam<Case> {};

std::vector<Case> alone() {
  std::vector<Case> all;
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const int workers : {1, 3}) {
      for (const char* strategy : {"ps-async", "ps-ssp"}) all.push_back({strategy, medium, workers, 2});
      for (const char* strategy : {"easgd", "local-sgd"}) all.push_back({strategy, medium, workers});
    }
    all.push_back({"ps-sync", medium, 3, 2, false, ps::Role::update, 1});
  }
  for (const int workers : {1, 3}) all.push_back({"hogwild", net::Medium::memory, workers});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FiniteAlone, ::testing::ValuesIn(alone()),
                         [](const auto& p) { return name_of(p.param); });

TEST_P(FiniteAlone, OnlyTheWorkerThatMadeItSkipsItsStep) {
  const int last = GetParam().workers - 1;
  for (const std::string tensor : {"b.weight", ""}) {
    const auto seen = train({.where = GetParam(), .fault = Fault{.rank = last, .tensor = tensor}});
    const bool replicas_differ = find_strategy(GetParam().strategy).replicas_differ;
    for (int r = 0; r <= last; ++r) {
      const Seen& s = seen[static_cast<std::size_t>(r)];
      ASSERT_FALSE(s.failed) << s.nonfinite;
      EXPECT_EQ(s.skipped, r == last ? std::set<int>{3} : std::set<int>{}) << r;
      EXPECT_TRUE(all_numbers(s.parameters.back()));
      EXPECT_TRUE(torch::equal(s.parameters.back(), seen[0].parameters.back())) << r;
      if (replicas_differ || last == 0) {  // nobody else changes what it has
        EXPECT_EQ(torch::equal(s.parameters[3], s.parameters[2]), r == last);
        EXPECT_FALSE(torch::equal(s.parameters[4], s.parameters[3]));
        EXPECT_EQ(s.steps_done, kSteps);
      }
    }
    if (last == 0) {
      EXPECT_TRUE(torch::equal(seen[0].state[3], seen[0].state[2]));
    }
  }
}

// Tables by rows: they are used with the buckets, or neither is.
class FiniteRows : public ::testing::TestWithParam<Case> {};

std::vector<Case> by_rows() {
  std::vector<Case> all;
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const char* strategy : {"hybrid", "ps-sync"}) {
      all.push_back({strategy, medium, 2, 1});
      all.push_back({strategy, medium, 3, 2});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FiniteRows, ::testing::ValuesIn(by_rows()),
                         [](const auto& p) { return name_of(p.param); });

TEST_P(FiniteRows, RowsAndBucketsAreSkippedTogether) {
  const int last = GetParam().workers - 1;
  for (const std::string tensor : {"words.weight", "a.weight", ""}) {
    for (const auto kind : {optim::Kind::adam, optim::Kind::adagrad}) {
      expect_skipped({.where = GetParam(),
                      .fault = Fault{.rank = last, .tensor = tensor},
                      .kind = kind,
                      .with_table = true});
    }
  }
}

TEST_P(FiniteRows, TheTableIsNamed) {
  const auto seen = train({.where = GetParam(),
                           .fault = Fault{.rank = 1, .tensor = "words.weight"},
                           .policy = OnNonFinite::stop,
                           .with_table = true});
  EXPECT_TRUE(seen[1].nonfinite.starts_with("rank 1: step 3: the gradient of words.weight holds nan; "))
      << seen[1].nonfinite;
  for (const Seen& s : seen) {
    for (const auto& p : s.parameters) EXPECT_TRUE(all_numbers(p));
  }
}

TEST(FiniteRowsAlone, WorkersThatDecideAloneLeaveOutTheirOwnRows) {
  for (const auto medium : {net::Medium::memory, net::Medium::sockets}) {
    for (const char* strategy : {"ps-async", "ps-ssp"}) {
      const Case where{strategy, medium, 1, 2};
      expect_skipped({.where = where, .fault = Fault{.tensor = "words.weight"}, .with_table = true});
    }
  }
}

}  // namespace
}  // namespace tutti::exchange
