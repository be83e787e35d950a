#include "train/step_work.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "train/open_data.h"
#include "train/scoped_seed.h"

namespace tutti::train {
namespace {

// Samples of a rehearsal; batch norm needs more than one.
constexpr std::size_t kRehearsed = 2;

double slowdown_of(const RunContext& run) {
  const auto slow = config::parse_slow(run.config);
  return slow.rank == to_int(run.everyone.rank()) ? slow.factor : 1;
}

ShardRun shards_of(const RunContext& run) {
  return parts_of(run.config, to_int(run.rank()));
}

std::unique_ptr<InTurns> make_turns(const RunContext& run) {
  if (!run.config.reproducible || !run.config.sync_batchnorm) return nullptr;
  return std::make_unique<InTurns>(static_cast<std::size_t>(shards_of(run).count()),
                                   [&run](const std::function<void()>& work) {
                                     at::set_num_threads(run.config.threads);
                                     const auto operators = watch_operators(run.config, run.everyone);
                                     work();
                                   });
}

}  // namespace

StepWork::StepWork(RunContext& run, const TrainedModel& model)
    : run_(run),
      slowdown_(slowdown_of(run)),
      in_turns_(make_turns(run)),
      passes_({run.config, fields_of(run.setup), model.phases, run.plan.micro_batch, run.plan.parts,
               shards_of(run).first, run.trace, in_turns_.get()}) {
  if (run.config.reproducible && !in_turns_) {
    shard_buffers_.emplace(model.buffers, ShardTree(run.config.shards), run.workers);
  }
}

void StepWork::detach() {
  pacer_.reset();
  replica_ = nullptr;
}

void StepWork::attach(exchange::Replica& replica) {
  replica_ = &replica;
  if (run_.config.pace_ms > 0) {
    const std::chrono::duration<double, std::milli> step(run_.config.pace_ms * slowdown_);
    pacer_.emplace(replica.buckets, replica.tables, std::chrono::duration_cast<Clock::duration>(step),
                   run_.config.seed);
  }
  const auto rehearsing = [this] { return pacer_ && pacer_->rehearsing(); };
  replica.announce({.gradient =
                        [this, rehearsing](grad::ParamId id) {
                          if (passes_.accumulating()) return false;
                          if (rehearsing()) pacer_->note(id);
                          return !rehearsing() && !run_.config.no_overlap;
                        },
                    .rows =
                        [this, rehearsing](std::size_t table) {
                          if (passes_.accumulating()) {
                            replica_->exchange->rows()->end_pass(table);
                            return false;
                          }
                          if (rehearsing()) pacer_->note_table(table);
                          return !rehearsing();
                        }});
}

void StepWork::rehearse(const data::Batch& batch) {
  pacer_->begin_rehearsal();
  data::Batch few = batch;
  // Rows are those that all samples read; where there are none, a few show the order as well.
  if (replica_->exchange->rows() == nullptr) few.count = std::min(few.count, kRehearsed);
  few.parts = {few.count};
  if (few.count > 0) forward_and_backward(few);
  pacer_->end_rehearsal();
}

std::optional<double> StepWork::run(const data::Batch& batch) {
  if (pacer_) {
    wait_instead();
    return std::nullopt;
  }
  if (batch.count == 0 && !run_.config.reproducible) return std::nullopt;
  const auto longer = std::chrono::duration_cast<Clock::duration>(last_compute_ * (slowdown_ - 1));
  sleep_until(Clock::now() + longer, [this] { run_.get_on(); });
  const auto begin = Clock::now();
  const double loss = forward_and_backward(batch);
  last_compute_ = Clock::now() - begin;
  if (run_.operators) run_.operators->after_pass(Clock::now() - begin);
  return loss;
}

void StepWork::wait_instead() {
  std::size_t phase = 0;
  pacer_->run(
      [&](grad::ParamId id) {
        const auto& buckets = replica_->buckets;
        for (; phase < buckets.layout(buckets.bucket_of(id)).phase; ++phase) {
          replica_->exchange->finish_phase(phase);
        }
        if (!run_.config.no_overlap) replica_->exchange->on_gradient(id);
      },
      [this](std::size_t table) { replica_->exchange->rows()->on_gradient(table); },
      [this] { run_.get_on(); });
}

// Who trains phases one after another has the parameters of those before.
void StepWork::begin_phase(std::size_t phase) {
  if (phase > 0 && !pacer_) {
    replica_->exchange->finish_phase(phase - 1);
    if (shard_buffers_) shard_buffers_->finish_phase();
  }
  replica_->buckets.begin_phase(phase);
}

// The loss. A rehearsal's gradients go nowhere, and its loss counts for nothing.
double StepWork::forward_and_backward(const data::Batch& batch) {
  PassesListener listener{.begin_phase = [this](std::size_t phase) { begin_phase(phase); },
                          .on_loss =
                              [this](std::size_t phase, double loss) {
                                if (!pacer_) replica_->updater.finite().loss(phase, loss);
                              }};
  if (run_.config.reproducible) {
    if (shard_buffers_) shard_buffers_->begin_step();
    listener.begin_part = [this](std::size_t) { shard_buffers_->begin_shard(); };
    listener.end_part = [this](std::size_t phase, bool last) {
      if (shard_buffers_) shard_buffers_->end_shard();
      if (!last) replica_->set_aside_shard(phase);
    };
    listener.parameters = [this](std::size_t phase) { return replica_->buckets.tensors_of(phase); };
  }
  return passes_.run(batch, listener);
}

// Every worker fills in what its shards bring, and to add zeros changes nothing but a zero's sign, which none
// has here.
void StepWork::sum_over_shards(std::span<double> values) {
  const PausedSeed paused;
  const std::size_t n = values.size();
  const std::size_t shard = static_cast<std::size_t>(shards_of(run_).first) + in_turns_->current();
  if (first_shard_runs()) brought_.assign(static_cast<std::size_t>(run_.plan.parts) * n, 0);
  for (std::size_t i = 0; i < n; ++i) brought_[shard * n + i] = values[i] + 0.0;
  in_turns_->meet([&] {
    run_.workers.all_reduce({brought_.data(), brought_.size(), DType::f64}, collectives::ReduceOp::sum,
                            "batch norm");
    sum_.assign(n, 0);
    for (std::size_t i = 0; i < brought_.size(); ++i) sum_[i % n] += brought_[i];
  });
  std::ranges::copy(sum_, values.begin());
}

// Every worker fills in its own shards, and to add zeros changes nothing: all have the same sum, in one
// order.
double StepWork::finish_shards(const data::Batch& batch) {
  if (shard_buffers_) shard_buffers_->finish_phase();
  std::vector<double> sums(static_cast<std::size_t>(run_.plan.parts));
  const auto first = static_cast<std::size_t>(shards_of(run_).first);
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    sums[first + i] = passes_.losses()[i] * static_cast<double>(batch.parts[i]);
  }
  run_.workers.all_reduce({sums.data(), sums.size(), DType::f64}, collectives::ReduceOp::sum, "loss");
  double all = 0;
  for (const double sum : sums) all += sum;
  return all / static_cast<double>(batch.global_count);
}

}  // namespace tutti::train
