// Trainings in which a number goes wrong, as each of their workers sees them.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/native.h"
#include "exchange/finite_guard.h"
#include "exchange/net_fixture.h"
#include "exchange/running_exchange.h"
#include "exchange/strategy.h"
#include "exchange/table_rows.h"
#include "exchange/updater.h"
#include "net/group.h"
#include "net/inproc.h"

namespace tutti::exchange::fixture {

inline constexpr auto kPatience = std::chrono::seconds(60);
inline constexpr std::size_t kBucketBytes = 64;  // a tensor each
inline constexpr int kSteps = 6;
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

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

inline std::string name_of(const Case& c) {
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
inline std::vector<Seen> train(const Trial& run) {
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

inline bool all_numbers(const torch::Tensor& t) {
  return t.isfinite().all().item<bool>();
}

}  // namespace tutti::exchange::fixture
