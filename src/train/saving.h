// Checkpoints of a run that goes on: copied between two steps, written beside them.
#pragma once

#include <filesystem>
#include <functional>

#include "exchange/replica.h"
#include "net/status_board.h"
#include "observe/event.h"
#include "state/snapshot.h"
#include "train/checkpoint_writer.h"
#include "train/measure.h"

namespace tutti::train {

// A worker's. One thread calls it.
class Saving {
 public:
  using Emit = std::function<void(const observe::Event&)>;

  // Into this run folder. The board outlives it. A state with a number that is not finite is never saved;
  // that ends the run, unless it `skips` what is not finite.
  Saving(std::filesystem::path run, const net::StatusBoard& board, Rank self, int workers, bool skips)
      : run_(std::move(run)), board_(board), self_(self), workers_(workers), skips_(skips) {}

  // Between steps: copies what belongs into the checkpoint of `step` and leaves the rest to a thread. `leads`
  // says that this worker's model and optimizer are the checkpoint's and that it puts the parts together;
  // others whose state `differs` add theirs, and do nothing where it does not. Where no step follows, nothing
  // changes before finish() and originals do instead of copies.
  struct What {
    std::int64_t step = 0;
    state::Differs differs = state::Differs::nothing;
    bool leads = false;
    state::Hold hold = state::Hold::copies;
  };
  void save(exchange::Replica& replica, const state::Buffers& buffers, const What& what, nlohmann::json meta);

  // How long save() has held a step, in milliseconds, one entry for each checkpoint that this worker led
  // between two steps; and of that, how long the copies took.
  const std::vector<double>& held_ms() const { return held_ms_; }
  const std::vector<double>& copied_ms() const { return copied_ms_; }

  // Tells what has been saved since the last call, or why it could not be: a run goes on without a
  // checkpoint. Never blocks.
  // Throws NonFinite.
  void report(const Emit& emit);

  // Blocks until everything is written, and tells. Throws what kept the last checkpoint from being written.
  void finish(const Emit& emit);

 private:
  void tell(const CheckpointWriter::Result& result, const Emit& emit) const;
  void check_finite(const state::Snapshot& snapshot, std::int64_t step) const;
  std::filesystem::path put_together(std::int64_t step, const state::Snapshot& model,
                                     const state::Snapshot& optimizer, const nlohmann::json& meta, bool parts,
                                     const std::atomic<bool>& stopped) const;

  const std::filesystem::path run_;
  const net::StatusBoard& board_;
  const Rank self_;
  const int workers_;
  const bool skips_;
  std::vector<double> held_ms_;
  std::vector<double> copied_ms_;
  // A slow disk is no rank that stands still.
  CheckpointWriter writer_{[this] { board_.advance(self_); }};
};

// Brings a worker's replica back from a checkpoint: rank 0's whole, and what others keep for themselves.
// `differs` is what this architecture lets workers keep. Returns false if the checkpoint has no part for this
// worker where all of it differs: it goes on then from rank 0's. Throws DataError.
bool restore_worker(const std::filesystem::path& step_folder, Rank self, exchange::Replica& replica,
                    const state::Buffers& buffers, state::Differs differs);

}  // namespace tutti::train
