// The state of a run as named tensors: what checkpoints hold and digests cover.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_view.h"
#include "exchange/exchange.h"
#include "exchange/updater.h"
#include "grad/buckets.h"
#include "train/buffers.h"

namespace tutti::train {

// What a snapshot holds of a tensor that lies in row-major order: a copy, or the tensor itself, which stays
// as it is while the snapshot is in use. Of all others it holds copies.
enum class Hold { copies, originals };

// Tensors in row-major order, with views on them.
class Snapshot {
 public:
  void add(const std::string& prefix, const std::vector<std::pair<std::string, torch::Tensor>>& tensors,
           Hold hold);
  const std::vector<checkpoint::TensorView>& views() const { return views_; }

 private:
  std::vector<torch::Tensor> held_;
  std::vector<checkpoint::TensorView> views_;
};

// Parameters of buckets and tables and what the model keeps beside them, or the optimizer's state of both
// ("exp_avg.conv1.weight" and so on).
Snapshot snapshot_model(const grad::Buckets& buckets, const grad::Tables& tables, const Buffers& buffers,
                        Hold hold);
Snapshot snapshot_optimizer(const grad::Buckets& buckets, const grad::Tables& tables,
                            exchange::Updater& updater, Hold hold);
// What an architecture keeps beside them ("centre.conv1.weight") goes where the optimizer's state goes.
void add_own_state(Snapshot& optimizer, const grad::Buckets& buckets,
                   const std::vector<exchange::NamedState>& own, Hold hold);

// The first tensor with a number that is none (NaN or infinite), in words: "conv1.weight holds nan (first at
// element 3)". Such a snapshot is never saved.
std::optional<std::string> first_nonfinite(const Snapshot& snapshot);

// What a worker keeps for itself: statistics of its batches alone, or all that a model and an optimizer have.
enum class Differs { nothing, buffers, all };
// The part of a checkpoint of a worker that differs from rank 0; copies.
Snapshot snapshot_replica(const grad::Buckets& buckets, const grad::Tables& tables, const Buffers& buffers,
                          exchange::Updater& updater, Differs differs);

// Fills model, optimizer state and `own` from a verified checkpoint. Throws DataError that names what is
// missing or of another shape; nothing is changed then.
void restore(const checkpoint::Checkpoint& from, grad::Buckets& buckets, const grad::Tables& tables,
             const Buffers& buffers, exchange::Updater& updater,
             const std::vector<exchange::NamedState>& own = {});
// The same from a worker's part; what is not in it stays as it is.
void restore_replica(const checkpoint::SafetensorsFile& from, grad::Buckets& buckets,
                     const grad::Tables& tables, const Buffers& buffers, exchange::Updater& updater);

// Fills the optimizer's state from a snapshot of it, however its parameters were split into buckets and
// tables then.
void restore_optimizer(const Snapshot& from, grad::Buckets& buckets, const grad::Tables& tables,
                       exchange::Updater& updater);

}  // namespace tutti::train
