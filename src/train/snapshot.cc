#include "train/snapshot.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "optim/finite.h"

namespace tutti::train {
namespace {

using Named = std::vector<std::pair<std::string, torch::Tensor>>;

// Of a worker's part of a checkpoint.
const std::string kModelPart = "model.";
const std::string kOptimizerPart = "optimizer.";

std::string slot_prefix(const exchange::Updater& updater, int slot) {
  return std::string(updater.slot_name(slot)) + ".";
}

DType type_of(const torch::Tensor& tensor) {
  return tensor.scalar_type() == torch::kInt64 ? DType::i64 : DType::f32;
}

const checkpoint::TensorView& fitting(const checkpoint::SafetensorsFile& file, const std::string& name,
                                      const torch::Tensor& like) {
  const checkpoint::TensorView& found = file.at(name);
  if (found.dtype != type_of(like) || torch::IntArrayRef(found.shape) != like.sizes()) {
    throw DataError(fmt::format("{}: tensor {} is {} {}, the model's is {} {}", file.path().string(), name,
                                name_of(found.dtype), checkpoint::shape_text(found.shape),
                                name_of(type_of(like)), checkpoint::shape_text(like.sizes().vec())));
  }
  return found;
}

Named model_views(const grad::Buckets& buckets, const grad::Tables& tables, const Buffers& buffers) {
  Named views = buckets.named_views(buckets.all_parameters());
  for (std::size_t t = 0; t < tables.size(); ++t) views.emplace_back(tables.name(t), tables.weight(t));
  views.insert(views.end(), buffers.views().begin(), buffers.views().end());
  return views;
}

Named state_views(const grad::Buckets& buckets, const grad::Tables& tables, exchange::Updater& updater,
                  int slot) {
  Named views = buckets.named_views(updater.slot(slot));
  const auto flat = tables.size() > 0 ? updater.table_slot(slot) : std::vector<std::span<float>>{};
  for (std::size_t t = 0; t < tables.size(); ++t) {
    views.emplace_back(tables.name(t), torch::from_blob(flat[t].data(), tables.weight(t).sizes()));
  }
  return views;
}

void copy_into(const checkpoint::TensorView& from, torch::Tensor to) {
  torch::Tensor row_major = torch::empty(to.sizes(), to.scalar_type());
  std::memcpy(row_major.data_ptr(), from.bytes.data(), from.bytes.size());
  to.copy_(row_major);
}

}  // namespace

void Snapshot::add(const std::string& prefix, const Named& tensors, Hold hold) {
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor original = tensor.detach();
    held_.push_back(hold == Hold::originals ? original.contiguous()
                                            : original.clone(torch::MemoryFormat::Contiguous));
    const torch::Tensor& held = held_.back();
    views_.push_back({prefix + name,
                      type_of(held),
                      held.sizes().vec(),
                      {static_cast<const std::byte*>(held.data_ptr()), held.nbytes()}});
  }
}

Snapshot snapshot_model(const grad::Buckets& buckets, const grad::Tables& tables, const Buffers& buffers,
                        Hold hold) {
  Snapshot s;
  s.add("", model_views(buckets, tables, buffers), hold);
  return s;
}

Snapshot snapshot_optimizer(const grad::Buckets& buckets, const grad::Tables& tables,
                            exchange::Updater& updater, Hold hold) {
  Snapshot s;
  for (int slot = 0; slot < updater.slots(); ++slot) {
    s.add(slot_prefix(updater, slot), state_views(buckets, tables, updater, slot), hold);
  }
  return s;
}

void add_own_state(Snapshot& optimizer, const grad::Buckets& buckets,
                   const std::vector<exchange::NamedState>& own, Hold hold) {
  for (const auto& state : own) {
    optimizer.add(std::string(state.name) + ".", buckets.named_views(state.buckets), hold);
  }
}

Snapshot snapshot_replica(const grad::Buckets& buckets, const grad::Tables& tables, const Buffers& buffers,
                          exchange::Updater& updater, Differs differs) {
  Snapshot s;
  if (differs == Differs::buffers) s.add(kModelPart, buffers.views(), Hold::copies);
  if (differs != Differs::all) return s;
  s.add(kModelPart, model_views(buckets, tables, buffers), Hold::copies);
  for (int slot = 0; slot < updater.slots(); ++slot) {
    s.add(kOptimizerPart + slot_prefix(updater, slot), state_views(buckets, tables, updater, slot),
          Hold::copies);
  }
  return s;
}

void restore_replica(const checkpoint::SafetensorsFile& from, grad::Buckets& buckets,
                     const grad::Tables& tables, const Buffers& buffers, exchange::Updater& updater) {
  const torch::NoGradGuard no_grad;
  const auto take = [&](const std::string& prefix, const Named& views) {
    for (const auto& [name, view] : views) {
      if (from.find(prefix + name) != nullptr) copy_into(fitting(from, prefix + name, view), view);
    }
  };
  take(kModelPart, model_views(buckets, tables, buffers));
  for (int slot = 0; slot < updater.slots(); ++slot) {
    take(kOptimizerPart + slot_prefix(updater, slot), state_views(buckets, tables, updater, slot));
  }
}

std::optional<std::string> first_nonfinite(const Snapshot& snapshot) {
  for (const checkpoint::TensorView& view : snapshot.views()) {
    if (view.dtype != DType::f32) continue;
    const std::span<const float> values(reinterpret_cast<const float*>(view.bytes.data()),
                                        view.bytes.size() / sizeof(float));
    if (optim::all_finite(values)) continue;
    const std::size_t at = *optim::first_nonfinite(values);
    return fmt::format("{} holds {} (first at element {})", view.name,
                       std::isnan(values[at]) ? "nan" : fmt::format("{}", values[at]), at);
  }
  return std::nullopt;
}

void restore(const checkpoint::Checkpoint& from, grad::Buckets& buckets, const grad::Tables& tables,
             const Buffers& buffers, exchange::Updater& updater,
             const std::vector<exchange::NamedState>& own) {
  std::vector<std::pair<const checkpoint::TensorView*, torch::Tensor>> copies;
  const auto plan = [&](const checkpoint::SafetensorsFile& file, const std::string& prefix,
                        const Named& views) {
    for (const auto& [name, view] : views) copies.emplace_back(&fitting(file, prefix + name, view), view);
  };
  plan(from.model, "", model_views(buckets, tables, buffers));
  for (int slot = 0; slot < updater.slots(); ++slot) {
    if (!from.optimizer) throw DataError(fmt::format("{} has no optimizer state", from.path.string()));
    plan(*from.optimizer, slot_prefix(updater, slot), state_views(buckets, tables, updater, slot));
  }
  for (const auto& state : own) {
    if (!from.optimizer) throw DataError(fmt::format("{} has no {}", from.path.string(), state.name));
    plan(*from.optimizer, std::string(state.name) + ".", buckets.named_views(state.buckets));
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [stored, view] : copies) copy_into(*stored, view);
}

void restore_optimizer(const Snapshot& from, grad::Buckets& buckets, const grad::Tables& tables,
                       exchange::Updater& updater) {
  for (int slot = 0; slot < updater.slots(); ++slot) {
    for (const auto& [name, view] : state_views(buckets, tables, updater, slot)) {
      const auto found =
          std::ranges::find(from.views(), slot_prefix(updater, slot) + name, &checkpoint::TensorView::name);
      TUTTI_CHECK(found != from.views().end(), "{}", name);
      copy_into(*found, view);
    }
  }
}

}  // namespace tutti::train
