// The state of a run as named tensors: what checkpoints hold and digests cover.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_view.h"
#include "exchange/exchange.h"
#include "exchange/updater.h"
#include "grad/buckets.h"
#include "state/buffers.h"

namespace tutti::state {

// What a snapshot holds of a tensor that lies in row-major order: a copy, or the tensor itself, which stays
// as it is while the snapshot is in use. Of all others it holds copies.
enum class Hold { copies, originals };

// Tensors in row-major order, with views on them. Types that files do not know are kept as larger ones
// (state/stored_type.h).
class Snapshot {
 public:
  // Throws ConfigError that names a tensor which holds no real numbers.
  void add(const std::string& prefix, const NamedTensors& tensors, Hold hold);
  const std::vector<checkpoint::TensorView>& views() const { return views_; }
  const std::vector<torch::Tensor>& tensors() const { return tensors_; }  // by view

 private:
  std::vector<torch::Tensor> tensors_;
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

// The first tensor with a NaN or infinite number, in words: "conv1.weight holds nan (first at
// element 3)". Such a snapshot is never saved.
std::optional<std::string> first_nonfinite(const Snapshot& snapshot);
// The same where infinite numbers may be meant: a mask among a user's buffers has them.
std::optional<std::string> first_nan(const Snapshot& snapshot);

// What a worker keeps for itself: statistics of its batches alone, or all that a model and an optimizer have.
enum class Differs { nothing, buffers, all };
// The part of a checkpoint of a worker that differs from rank 0.
Snapshot snapshot_replica(const grad::Buckets& buckets, const grad::Tables& tables, const Buffers& buffers,
                          exchange::Updater& updater, Differs differs, Hold hold);

// Fills these tensors, which have their names in the file. Throws DataError that names what is missing or of
// another type or shape; nothing is changed then.
void restore(const checkpoint::SafetensorsFile& from, const NamedTensors& tensors);

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

}  // namespace tutti::state
