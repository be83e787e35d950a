// What a run saves of itself, by the moment at which it does.
#pragma once

#include "train/live_replica.h"
#include "train/run_context.h"
#include "train/sample_ledger.h"
#include "train/saving.h"
#include "train/trained_model.h"

namespace tutti::train {

enum class Moment {
  between_steps,  // others follow, and change what is being saved
  stopped,        // none follows, though the run has more
  ended
};

// A worker's. One thread calls it; everything that it is given outlives it.
class Checkpoints {
 public:
  Checkpoints(const RunContext& run, const TrainedModel& model, LiveReplica& live,
              const SampleLedger& ledger);

  // Right before save(), after the same step: the checkpoint keeps which samples all workers have used so
  // far. A collective call; without it the checkpoint does not say.
  void count_samples(collectives::Collectives& all);

  // After `done` steps; all workers call it. `beside` is what workers that have the same parameters keep for
  // themselves just now. Writing goes on beside the steps that follow.
  void save(std::int64_t done, Moment moment, state::Differs beside);

  // Tells what has been saved since the last call. Throws NonFinite.
  void report() { saving_.report(tell_); }
  // Blocks until everything is written, and tells. Throws what kept the last one from being written.
  void finish() { saving_.finish(tell_); }

  // Medians: how long a checkpoint has held a step, and how long copying took of that.
  double hold_ms() const { return quantile(saving_.held_ms(), 0.5); }
  double copy_ms() const { return quantile(saving_.copied_ms(), 0.5); }

 private:
  void tell_of_parts(std::int64_t step);

  const RunContext& run_;
  const TrainedModel& model_;
  LiveReplica& live_;
  const SampleLedger& ledger_;
  nlohmann::json samples_;  // of all workers, for the next save(); null: not known
  const Saving::Emit tell_ = [this](const observe::Event& e) { run_.sink.emit(e); };
  Saving saving_;
};

}  // namespace tutti::train
