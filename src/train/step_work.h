// What a worker does in a step until its gradients are final: forward and backward, or, under --pace,
// waiting as long as they would take.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/in_turns.h"
#include "exchange/replica.h"
#include "state/shard_buffers.h"
#include "train/pace.h"
#include "train/passes.h"
#include "train/run_context.h"
#include "train/trained_model.h"

namespace tutti::train {

// One thread calls it. The run and the model outlive it.
class StepWork {
 public:
  StepWork(RunContext& run, const TrainedModel& model);

  // From now on this replica is trained: its exchange hears of its gradients. detach() comes before its end.
  void attach(exchange::Replica& replica);
  void detach();

  // Before the first step that is paced: computes one that does not count, to learn where in a step each
  // gradient comes.
  bool needs_rehearsal() const { return pacer_ && !pacer_->rehearsed(); }
  void rehearse(const data::Batch& batch);

  // Announces every gradient of the step to the exchange. The loss of this worker's samples, if one was
  // computed.
  std::optional<double> run(const data::Batch& batch);

  // With --reproducible, when the exchange has finished the step: makes running statistics those of all
  // shards, and returns the loss over all of them. A collective call.
  double finish_shards(const data::Batch& batch);

  // Whether this worker's shards are computed in turns, because they form statistics together
  // (--sync-batchnorm). Of the shard that is computed now: whether it is this worker's first; and the sum of
  // what all shards of all workers bring, in their order, which each of them asks for.
  bool in_turns() const { return in_turns_ != nullptr; }
  bool first_shard_runs() const { return in_turns_->current() == 0; }
  void sum_over_shards(std::span<double> values);

  // What a step computes at a time (Passes).
  std::vector<models::Batch> micro_batches(const data::Batch& batch) const {
    return passes_.micro_batches(batch);
  }

 private:
  double forward_and_backward(const data::Batch& batch);
  void begin_phase(std::size_t phase);
  void wait_instead();

  RunContext& run_;
  const double slowdown_;                    // of this rank, by --slow
  const std::unique_ptr<InTurns> in_turns_;  // a task for each of this worker's shards, or null
  std::vector<double> brought_;              // by shard, what it brings to a sum
  std::vector<double> sum_;                  // of all
  Passes passes_;
  std::optional<state::ShardBuffers> shard_buffers_;  // with --reproducible, of shards one after another
  exchange::Replica* replica_ = nullptr;
  std::optional<Pacer> pacer_;
  std::chrono::duration<double> last_compute_{};
};

}  // namespace tutti::train
