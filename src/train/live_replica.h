// The replica that trains now. It is made anew where a table's way or the number of partitions changes:
// parameters stay where they are then, and the optimizer's state goes along.
#pragma once

#include <functional>
#include <optional>

#include "exchange/replica.h"
#include "train/partitions.h"
#include "train/routing.h"
#include "train/run_context.h"
#include "train/step_work.h"
#include "train/trained_model.h"

namespace tutti::train {

// All workers make the same calls at the same places. One thread calls it; everything that it is given
// outlives it.
class LiveReplica {
 public:
  // `work` trains each replica that is made, from before its exchange starts.
  LiveReplica(RunContext& run, const TrainedModel& model, StepWork& work);
  ~LiveReplica();
  LiveReplica(const LiveReplica&) = delete;
  LiveReplica& operator=(const LiveReplica&) = delete;

  // Everyone begins with the same weights: rank 0's, or the checkpoint's. `rows_read` says what the first
  // batch reads of each embedding.
  void start(const std::function<std::vector<torch::Tensor>()>& rows_read);

  // The rows that a step reads of each embedding, whatever it computes at a time.
  std::vector<torch::Tensor> rows_read(const std::vector<models::Batch>& micro_batches) const;
  // Tells the exchange which rows the next step reads, where tables go by rows.
  void expect(const std::vector<models::Batch>& micro_batches);

  // Between two steps of the run.
  void after_step(bool epoch_done);

  exchange::Replica& replica() { return *replica_; }
  exchange::RunningExchange& exchange() { return *replica_->exchange; }
  const Routing& routing() const { return routing_; }
  // Of the parameters as they are.
  std::string digest() const;
  std::uint64_t bytes_sent() const { return bytes_before_ + replica_->exchange->bytes_sent(); }
  // For people: the architecture, and what it runs on.
  std::string describe() const;
  // What went which way, in how many partitions, and what the servers have counted.
  void add_to(observe::Summary& summary) const;

 private:
  void make();
  void synchronise_batch_norm();
  void sum_over_workers(std::span<double> values);
  void resume();
  void begin_anew();
  void search_partitions();
  std::uint64_t first_bucket_bytes() const;

  RunContext& run_;
  const TrainedModel& model_;
  StepWork& work_;
  const collectives::Collectives::Mark before_replica_;
  exchange::Tuning tuning_;
  Routing routing_;
  std::optional<PartitionSearch> search_;
  bool partitions_said_ = false;
  std::optional<exchange::Replica> replica_;
  std::uint64_t bytes_before_ = 0;  // sent by exchanges that have ended
};

}  // namespace tutti::train
