#include "train/live_replica.h"

#include <algorithm>

#include "base/crypto.h"
#include "base/error.h"
#include "models/batch_norm.h"
#include "train/saving.h"
#include "train/scoped_seed.h"

namespace tutti::train {

LiveReplica::LiveReplica(RunContext& run, const TrainedModel& model, StepWork& work)
    : run_(run),
      model_(model),
      work_(work),
      before_replica_(run.workers.mark()),
      tuning_(tuning_of(run.config, run.hosts)),
      routing_(run, *model.network, tuning_) {
  tuning_.servers.incarnation = static_cast<std::uint32_t>(run.setup.restarts.size());
  if (run.config.partitions == "auto") search_.emplace(run.config.servers);
  if (run.config.sync_batchnorm) synchronise_batch_norm();
}

void LiveReplica::synchronise_batch_norm() {
  if (!run_.config.reproducible) {
    models::synchronise_batch_norm(*model_.network, [this](std::span<double> s) { sum_over_workers(s); });
    return;
  }
  const int norms = models::synchronise_batch_norm(
      *model_.network, [this](std::span<double> s) { work_.sum_over_shards(s); },
      [this] { return work_.first_shard_runs(); });
  // What a shard would change by itself depends on which of them a worker has.
  constexpr std::size_t kBuffersOfANorm = 3;
  if (model_.buffers.views().size() != kBuffersOfANorm * static_cast<std::size_t>(norms))
    throw ConfigError(fmt::format(
        "--sync-batchnorm with --reproducible is for networks whose only statistics are those of tutti's own "
        "batch norm, and {} has others",
        run_.config.model));
}

// In the middle of a step, whose gradients may be on their way.
void LiveReplica::sum_over_workers(std::span<double> values) {
  const PausedSeed paused;
  exchange().drain();
  run_.workers.all_reduce({values.data(), values.size(), DType::f64}, collectives::ReduceOp::sum,
                          "batch norm");
}

LiveReplica::~LiveReplica() {
  work_.detach();
}

void LiveReplica::make() {
  work_.detach();
  replica_.reset();
  run_.workers.release(before_replica_);
  std::vector<std::string> trained_by_phase;
  for (const models::Phase& phase : model_.phases) trained_by_phase.push_back(phase.trains);
  replica_.emplace(
      exchange::ReplicaContext{*model_.network, run_.strategy, tuning_, run_.config.bucket_bytes,
                               run_.everyone_for_servers(), run_.workers, run_.trace},
      routing_.by_rows(),
      [&](const grad::Tables& tables) {
        return grad::trained_parameters(*model_.network, tables, trained_by_phase);
      },
      [&](grad::Buckets& buckets) { return exchange::flat_update(buckets, tuning_.servers.optimizer); });
  work_.attach(*replica_);
}

void LiveReplica::start(const std::function<std::vector<torch::Tensor>()>& rows_read) {
  const Setup& setup = run_.setup;
  routing_.decide(rows_read, setup.routes);
  if (work_.in_turns() && !routing_.by_rows().empty())
    throw ConfigError(
        "--sync-batchnorm with --reproducible: embedding tables must travel whole; use --strategy allreduce");
  run_.say("taking over the first weights");
  if (routing_.by_rows().empty() || run_.asynchronous) {
    search_.reset();  // nothing to cut, or nobody to agree with
  } else if (search_) {
    tuning_.partitions = search_->first();
  }
  make();
  if (setup.checkpoint) resume();
  exchange().start(setup.first_step, setup.checkpoint.has_value());
}

// Rank 0 first: the others begin with its statistics, and then take back what was their own.
void LiveReplica::resume() {
  const std::string& checkpoint = *run_.setup.checkpoint;
  const std::int64_t step = run_.setup.first_step;
  state::Differs differs = run_.strategy.replicas_differ ? state::Differs::all : state::Differs::buffers;
  if (run_.config.reproducible) differs = state::Differs::nothing;
  const auto restore = [&] {
    return restore_worker(checkpoint, run_.rank(), *replica_, model_.buffers, differs);
  };
  bool exact = run_.first() && restore();
  model_.buffers.broadcast(run_.workers);
  exact = exact || restore();
  run_.emit(observe::Resumed{step, checkpoint});
  if (!exact && step < run_.plan.total_steps) {
    run_.sink.emit(
        observe::Note{fmt::format("rank {}: the checkpoint has rank 0's replica alone; from here the run is "
                                  "another than it would have been",
                                  to_int(run_.rank()))});
  } else if (run_.asynchronous) {
    run_.note(
        fmt::format("--strategy {}: workers do not keep step, so this run will not repeat the "
                    "undisturbed one bit by bit",
                    run_.config.strategy));
  }
}

void LiveReplica::begin_anew() {
  const std::int64_t done = exchange().steps_done();
  exchange().finish(exchange::Afterwards::another_session);
  bytes_before_ += exchange().bytes_sent();
  std::optional<state::Snapshot> kept;
  if (run_.first()) {
    kept = state::snapshot_optimizer(replica_->buckets, replica_->tables, replica_->updater,
                                     state::Hold::copies);
  }
  make();
  if (run_.first()) state::restore_optimizer(*kept, replica_->buckets, replica_->tables, replica_->updater);
  exchange().start(done, true);
}

// Micro batch by micro batch: a model may draw rows of its own, from what it is given.
std::vector<torch::Tensor> LiveReplica::rows_read(const std::vector<models::Batch>& micro_batches) const {
  std::vector<std::vector<torch::Tensor>> by_table;
  for (const models::Batch& batch : micro_batches) {
    const auto read = model_.network->rows_read(batch);
    by_table.resize(read.size());
    for (std::size_t t = 0; t < read.size(); ++t) by_table[t].push_back(read[t].flatten());
  }
  // A worker may have nothing to compute in the last step of an epoch.
  if (micro_batches.empty()) return {routing_.embeddings().size(), torch::empty({0}, torch::kInt64)};
  std::vector<torch::Tensor> all;
  for (const auto& parts : by_table) all.push_back(torch::cat(parts));
  return all;
}

void LiveReplica::expect(const std::vector<models::Batch>& micro_batches) {
  const auto read = rows_read(micro_batches);
  const auto& all = routing_.embeddings();
  TUTTI_CHECK(read.size() == all.size(), "{} tables, {} read", all.size(), read.size());
  const grad::Tables& tables = replica_->tables;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const auto at = std::ranges::find(all, tables.name(t)) - all.begin();
    const auto numbers = read[static_cast<std::size_t>(at)].contiguous();
    exchange().rows()->expect(t,
                              {numbers.data_ptr<std::int64_t>(), static_cast<std::size_t>(numbers.numel())});
  }
}

void LiveReplica::after_step(bool epoch_done) {
  if (epoch_done && run_.together && exchange().rows() != nullptr &&
      routing_.revise(replica_->tables, exchange().rows()->take_densities())) {
    begin_anew();
  }
  if (search_) search_partitions();
}

void LiveReplica::search_partitions() {
  if (exchange().rows() == nullptr) return search_.reset();  // all tables have turned dense
  const auto partitions = search_->after_step(exchange().rows()->last_wait(), run_.workers);
  if (partitions) {
    tuning_.partitions = *partitions;
    begin_anew();
  }
  if (search_->choice() && !std::exchange(partitions_said_, true)) {
    run_.note(fmt::format("partitions: {}", search_->choice()->reason));
  }
}

std::uint64_t LiveReplica::first_bucket_bytes() const {
  const auto& buckets = replica_->buckets;
  return buckets.size() > 0 ? buckets.layout(0).count * sizeof(float) : 0;
}

std::string LiveReplica::digest() const {
  // Others may write into the parameters where workers are apart.
  const state::Hold hold = run_.together ? state::Hold::originals : state::Hold::copies;
  const auto model = state::snapshot_model(replica_->buckets, replica_->tables, model_.buffers, hold);
  return to_hex(checkpoint::parameters_digest(model.views()));
}

std::string LiveReplica::describe() const {
  return exchange::describe(run_.strategy, run_.workers, tuning_, first_bucket_bytes());
}

void LiveReplica::add_to(observe::Summary& summary) const {
  summary.by_servers = replica_->exchange->by_servers();
  summary.routes.assign(routing_.routes().begin(), routing_.routes().end());
  if (!routing_.by_rows().empty()) summary.partitions = tuning_.partitions;
  if (search_) summary.partition_search = search_->report();
  for (const auto& [operation, method] :
       exchange::collectives_of(run_.strategy, run_.workers, tuning_, first_bucket_bytes())) {
    summary.collectives.push_back({.operation = std::string(name_of(operation)),
                                   .algorithm = method.algorithm,
                                   .bytes = first_bucket_bytes(),
                                   .reason = method.reason});
  }
}

}  // namespace tutti::train
