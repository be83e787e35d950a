#include "state/snapshot.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "optim/finite.h"
#include "state/stored_type.h"

namespace tutti::state {
namespace {

// Of a worker's part of a checkpoint.
const std::string kModelPart = "model.";
const std::string kOptimizerPart = "optimizer.";

std::string slot_prefix(const exchange::Updater& updater, int slot) {
  return std::string(updater.slot_name(slot)) + ".";
}

DType type_of(const std::string& name, const torch::Tensor& tensor) {
  const auto type = stored_type(tensor.scalar_type());
  if (!type) {
    throw ConfigError(
        fmt::format("tensor {} is of {}, which cannot be kept", name, c10::toString(tensor.scalar_type())));
  }
  return *type;
}

const checkpoint::TensorView& fitting(const checkpoint::SafetensorsFile& file, const std::string& name,
                                      const torch::Tensor& like) {
  const checkpoint::TensorView& found = file.at(name);
  const DType type = type_of(name, like);
  if (found.dtype != type || torch::IntArrayRef(found.shape) != like.sizes()) {
    throw DataError(fmt::format("{}: tensor {} is {} {}, the model's is {} {}", file.path().string(), name,
                                name_of(found.dtype), checkpoint::shape_text(found.shape), name_of(type),
                                checkpoint::shape_text(like.sizes().vec())));
  }
  return found;
}

NamedTensors model_views(const grad::Buckets& buckets, const grad::Tables& tables, const Buffers& buffers) {
  NamedTensors views = buckets.named_views(buckets.all_parameters());
  for (std::size_t t = 0; t < tables.size(); ++t) views.emplace_back(tables.name(t), tables.weight(t));
  views.insert(views.end(), buffers.views().begin(), buffers.views().end());
  return views;
}

NamedTensors state_views(const grad::Buckets& buckets, const grad::Tables& tables, exchange::Updater& updater,
                         int slot) {
  NamedTensors views = buckets.named_views(updater.slot(slot));
  const auto flat = tables.size() > 0 ? updater.table_slot(slot) : std::vector<std::span<float>>{};
  for (std::size_t t = 0; t < tables.size(); ++t) {
    views.emplace_back(tables.name(t), torch::from_blob(flat[t].data(), tables.weight(t).sizes()));
  }
  return views;
}

void copy_into(const checkpoint::TensorView& from, torch::Tensor to) {
  // Files hold rows one after another, and small integers and truth values as int32: `to` may have another
  // order and type, which copy_ converts to.
  torch::Tensor row_major = torch::empty(to.sizes(), torch_type(from.dtype));
  std::memcpy(row_major.data_ptr(), from.bytes.data(), from.bytes.size());
  to.copy_(row_major);
}

// Planned first and made when all are known to fit.
using Copies = std::vector<std::pair<const checkpoint::TensorView*, torch::Tensor>>;

// The first number that `is_bad` marks, in words; nothing if there is none.
template <typename IsBad>
std::optional<std::string> first_of(const Snapshot& snapshot, const IsBad& is_bad) {
  for (std::size_t i = 0; i < snapshot.tensors().size(); ++i) {
    const torch::Tensor flat = snapshot.tensors()[i].view({-1});
    if (!flat.is_floating_point()) continue;
    // Nearly always all is well, and a look at the exponents costs little more than reading.
    if (flat.scalar_type() == torch::kFloat32 &&
        optim::all_finite({flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())})) {
      continue;
    }
    const torch::Tensor bad = is_bad(flat).nonzero();
    if (bad.numel() == 0) continue;
    const auto at = bad[0].template item<std::int64_t>();
    const auto value = flat[at].template item<double>();
    return fmt::format("{} holds {} (first at element {})", snapshot.views()[i].name,
                       std::isnan(value) ? "nan" : fmt::format("{}", value), at);
  }
  return std::nullopt;
}

}  // namespace

void Snapshot::add(const std::string& prefix, const NamedTensors& tensors, Hold hold) {
  for (const auto& [name, tensor] : tensors) {
    const DType type = type_of(name, tensor);
    const torch::Tensor original = tensor.detach();
    torch::Tensor held = original.to(torch_type(type)).contiguous();
    if (hold == Hold::copies && held.is_alias_of(original)) held = held.clone();
    views_.push_back({prefix + name,
                      type,
                      held.sizes().vec(),
                      {static_cast<const std::byte*>(held.data_ptr()), held.nbytes()}});
    tensors_.push_back(std::move(held));
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
                          exchange::Updater& updater, Differs differs, Hold hold) {
  Snapshot s;
  if (differs == Differs::buffers) s.add(kModelPart, buffers.views(), hold);
  if (differs != Differs::all) return s;
  s.add(kModelPart, model_views(buckets, tables, buffers), hold);
  for (int slot = 0; slot < updater.slots(); ++slot) {
    s.add(kOptimizerPart + slot_prefix(updater, slot), state_views(buckets, tables, updater, slot), hold);
  }
  return s;
}

void restore_replica(const checkpoint::SafetensorsFile& from, grad::Buckets& buckets,
                     const grad::Tables& tables, const Buffers& buffers, exchange::Updater& updater) {
  const torch::NoGradGuard no_grad;
  Copies copies;
  const auto plan = [&](const std::string& prefix, const NamedTensors& views) {
    for (const auto& [name, view] : views) {
      if (from.find(prefix + name) != nullptr) copies.emplace_back(&fitting(from, prefix + name, view), view);
    }
  };
  plan(kModelPart, model_views(buckets, tables, buffers));
  for (int slot = 0; slot < updater.slots(); ++slot) {
    plan(kOptimizerPart + slot_prefix(updater, slot), state_views(buckets, tables, updater, slot));
  }
  for (const auto& [stored, view] : copies) copy_into(*stored, view);
}

std::optional<std::string> first_nonfinite(const Snapshot& snapshot) {
  return first_of(snapshot, [](const torch::Tensor& t) { return ~torch::isfinite(t); });
}

std::optional<std::string> first_nan(const Snapshot& snapshot) {
  return first_of(snapshot, [](const torch::Tensor& t) { return torch::isnan(t); });
}

void restore(const checkpoint::SafetensorsFile& from, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) fitting(from, name, tensor);
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) copy_into(from.at(name), tensor);
}

void restore(const checkpoint::Checkpoint& from, grad::Buckets& buckets, const grad::Tables& tables,
             const Buffers& buffers, exchange::Updater& updater,
             const std::vector<exchange::NamedState>& own) {
  Copies copies;
  const auto plan = [&](const checkpoint::SafetensorsFile& file, const std::string& prefix,
                        const NamedTensors& views) {
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

}  // namespace tutti::state
