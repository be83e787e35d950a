// What every part of a worker's run looks at: its settings, its plan, its peers, and whom it tells.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/native.h"
#include "data/loader.h"
#include "data/samples.h"
#include "engines/engines.h"
#include "exchange/strategy.h"
#include "models/model.h"
#include "net/group.h"
#include "observe/event.h"
#include "observe/trace.h"
#include "train/operators.h"
#include "train/plan.h"
#include "train/prepare.h"
#include "train/run_requests.h"
#include "train/sample_ledger.h"

namespace tutti::train {

// Operators of the calling thread as progress of its rank; null where nobody watches.
std::unique_ptr<OperatorProgress> watch_operators(const config::TrainConfig& config,
                                                  const net::Transport& everyone);

// Made first and ended last, on the thread that trains, where libtorch computes with config.threads from then
// on; setup, transports and sink outlive it.
class RunContext {
 public:
  // `all_ranks` are workers and servers, and on these hosts. `address` is where this process may listen.
  // Throws DataError, and what an engine's make throws.
  RunContext(const Setup& its_setup, net::Transport& all_ranks, observe::EventSink& its_sink,
             const collectives::Hosts& hosts, const std::string& address);

  const Setup& setup;
  const config::TrainConfig& config;
  observe::EventSink& sink;
  // Before any model is made: libtorch's operators are seen only from then on. None where nobody watches.
  const std::unique_ptr<OperatorProgress> operators;
  const models::ModelInfo info;
  const exchange::Strategy& strategy;
  const bool asynchronous;  // workers do not keep step
  const bool together;      // they do, and all have the same parameters after each
  const std::unique_ptr<data::Samples> training;
  const std::unique_ptr<data::Samples> test;
  const RunPlan plan;
  net::Transport& everyone;
  const std::vector<int> hosts;  // by rank; empty: all are on one

 private:
  net::Group group_;                         // the workers
  std::optional<net::Survivors> reordered_;  // everyone, where servers count them in another order
  const std::unique_ptr<collectives::Collectives> engine_;

 public:
  collectives::Collectives& workers;
  observe::Trace trace;

  // Which samples this worker reads.
  data::LoaderPlan loading() const;
  // What was trained on before this run's first step, of which rank 0 keeps count for all.
  std::vector<EpochSums> samples_before() const;

  // Where workers may have died on the way, those that are left end the run among themselves: all of them
  // call it, and speak through workers_left() from then on.
  void gather_survivors();
  collectives::Collectives& workers_left() { return rest_ ? *rest_ : workers; }

  // Everyone, as servers count them (plan.h).
  net::Transport& everyone_for_servers() { return reordered_ ? *reordered_ : everyone; }

  // What a user asks of this run while it trains. The context outlives it.
  RunRequests make_requests() const;
  Rank rank() const { return workers.rank(); }
  std::filesystem::path folder() const { return config.out; }
  const net::StatusBoard& board() const { return everyone.board(); }
  // Who tells, evaluates and saves: rank 0 while it lives.
  bool first() const { return net::first_left(board(), workers.world()) == rank(); }

  // For whoever looks whether this rank gets on, and what it is at.
  void say(std::string_view doing) const { board().say(everyone.rank(), doing); }
  void get_on() const { board().advance(everyone.rank()); }

  // To the user, from the first() alone.
  void emit(const observe::Event& event) const {
    if (first()) sink.emit(event);
  }
  void note(std::string line) const { emit(observe::Note{std::move(line)}); }

 private:
  std::optional<net::Survivors> survivors_;  // if any worker has died
  std::optional<collectives::NativeEngine> rest_;
};

}  // namespace tutti::train
