#include "train/step_record.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/xxh64.h"
#include "checkpoint/safetensors.h"
#include "state/snapshot.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::span<float>> gradients_of(grad::Buckets& buckets) {
  std::vector<std::span<float>> gradients;
  for (std::size_t b = 0; b < buckets.size(); ++b) gradients.push_back(buckets.gradients(b));
  return gradients;
}

}  // namespace

StepRecord::StepRecord(const RunContext& run, const state::Buffers& buffers)
    : run_(run),
      buffers_(buffers),
      unit_(run.config.reproducible ? "shards/" : fmt::format("rank-{}/", to_int(run.rank()))) {
  std::error_code failed;
  fs::create_directories(fs::path(run.config.out) / kRecordFolder, failed);
  if (!run.config.record_digests) return;
  const auto path = record_digests_path(run.config.out, to_int(run.rank()));
  lines_.open(path, std::ios::trunc);
  if (!lines_) throw RunError(fmt::format("cannot write {}", path.string()));
}

void StepRecord::start(exchange::Replica& replica) {
  std::vector<Entry> entries;
  add(entries, "parameter/", replica.buckets.named_views(replica.buckets.all_parameters()));
  write(run_.setup.first_step, entries);
}

void StepRecord::begin_step(std::int64_t step, exchange::Replica& replica) {
  step_ = step;
  replica_ = &replica;
  own_.assign(replica.buckets.parameter_count(), {});
  const int shards = replica.shards ? replica.shards->run().count() : 0;
  shards_.assign(static_cast<std::size_t>(shards), own_);
  mean_.assign(replica.buckets.parameter_count(), {});
}

void StepRecord::shard_gradient(std::size_t bucket, int shard) {
  keep(shards_[static_cast<std::size_t>(shard - replica_->shards->run().first)], bucket);
}

// In row-major order, whatever order a bucket has, so that files and digests say nothing of memory.
void StepRecord::keep(std::vector<torch::Tensor>& by_parameter, std::size_t bucket) {
  grad::Buckets& buckets = replica_->buckets;
  const auto views = buckets.named_views(gradients_of(buckets));
  for (const grad::Slice& s : buckets.layout(bucket).slices) {
    const auto p = static_cast<std::size_t>(to_int(s.param));
    by_parameter[p] = views[p].second.clone(torch::MemoryFormat::Contiguous);
  }
}

void StepRecord::add(std::vector<Entry>& entries, const std::string& prefix,
                     const state::NamedTensors& tensors) const {
  for (const auto& [name, tensor] : tensors) entries.push_back({prefix + name, tensor});
}

void StepRecord::add_kept(std::vector<Entry>& entries, const std::string& prefix,
                          const std::vector<torch::Tensor>& by_parameter) const {
  for (std::size_t p = 0; p < by_parameter.size(); ++p) {
    const auto& name = replica_->buckets.name_of(grad::ParamId{static_cast<int>(p)});
    if (by_parameter[p].defined()) entries.push_back({prefix + name, by_parameter[p]});
  }
}

void StepRecord::end_step() {
  exchange::Updater& updater = replica_->updater;
  const grad::Buckets& buckets = replica_->buckets;
  std::vector<Entry> entries;
  add_kept(entries, "gradient/" + unit_, own_);
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    const auto shard = static_cast<std::size_t>(replica_->shards->run().first) + s;
    add_kept(entries, fmt::format("gradient/shard-{}/", shard), shards_[s]);
  }
  add(entries, "buffer/" + unit_, buffers_.views());
  add_kept(entries, "mean/", mean_);
  add(entries, "parameter/", buckets.named_views(buckets.all_parameters()));
  for (int slot = 0; slot < updater.slots(); ++slot) {
    add(entries, fmt::format("state/{}.", updater.slot_name(slot)), buckets.named_views(updater.slot(slot)));
  }
  write(step_, entries);
}

void StepRecord::write(std::int64_t step, const std::vector<Entry>& entries) {
  const std::int64_t whole = run_.config.record_step;
  // What the first step begins with belongs to it.
  const bool in_full = step == whole || (step == run_.setup.first_step && step + 1 == whole);
  if (!in_full && !lines_.is_open()) return;
  state::Snapshot snapshot;
  for (const auto& [key, value] : entries) snapshot.add("", {{key, value}}, state::Hold::originals);
  if (lines_.is_open()) {
    auto digests = nlohmann::json::array();
    for (const auto& view : snapshot.views()) digests.push_back({view.name, hex64(xxh64(view.bytes))});
    lines_ << nlohmann::json{{"step", step}, {"digests", digests}}.dump() << '\n' << std::flush;
    if (!lines_) throw RunError(fmt::format("cannot write into {}", kRecordFolder));
  }
  if (!in_full) return;
  const auto path = record_step_path(run_.config.out, step, to_int(run_.rank()));
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  checkpoint::write_safetensors(path, snapshot.views());
}

}  // namespace tutti::train
