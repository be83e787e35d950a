#include "train/step_watch.h"

#include <bit>

#include "base/error.h"

namespace tutti::train {
namespace {

std::optional<grad::ParamId> find(const grad::Buckets& buckets, const std::string& name) {
  for (int p = 0; p < static_cast<int>(buckets.parameter_count()); ++p) {
    if (buckets.name_of(grad::ParamId{p}) == name) return grad::ParamId{p};
  }
  return std::nullopt;
}

// An element by its number in row-major order, wherever its tensor's strides have put it.
float& element_of(const torch::Tensor& tensor, std::int64_t number) {
  std::int64_t at = 0;
  for (std::int64_t d = tensor.dim(); d-- > 0; number /= tensor.size(d)) {
    at += number % tensor.size(d) * tensor.stride(d);
  }
  return tensor.data_ptr<float>()[at];
}

void require_there(const config::FlipBit& flip, const grad::Buckets& buckets) {
  const auto id = find(buckets, flip.tensor);
  if (!id) {
    throw ConfigError(fmt::format(
        "--flip-bit: no gradient of a tensor {} is exchanged whole; `tutti ckpt show` lists tensors",
        flip.tensor));
  }
  if (flip.element >= buckets.count_of(*id)) {
    throw ConfigError(fmt::format("--flip-bit: {} has {} elements, and none is number {}", flip.tensor,
                                  buckets.count_of(*id), flip.element));
  }
}

}  // namespace

void require_flippable(const exchange::Strategy& strategy, const config::TrainConfig& c) {
  const auto flip = config::parse_flip_bit(c);
  if (!flip || flip->site == config::FlipBit::Site::gradient) return;
  const bool by_servers = strategy.servers && !strategy.hybrid && c.server_role != "sum";
  const bool alone =
      !c.reproducible && (strategy.one_worker_only || strategy.asynchronous || strategy.replicas_differ);
  if (by_servers || alone) {
    throw ConfigError(fmt::format("--flip-bit {}: workers of --strategy {} {}; use :gradient", c.flip_bit,
                                  c.strategy,
                                  by_servers ? "see no mean, which the servers form and apply"
                                             : "apply their own gradients, not a mean"));
  }
}

StepWatch::StepWatch(const RunContext& run, const state::Buffers& buffers)
    : flip_(config::parse_flip_bit(run.config)) {
  if (flip_ && flip_->rank != to_int(run.rank())) flip_.reset();
  if (StepRecord::wanted(run.config)) record_.emplace(run, buffers);
}

void StepWatch::start(exchange::Replica& replica) {
  if (record_) record_->start(replica);
}

void StepWatch::begin_step(std::int64_t step, exchange::Replica& replica) {
  if (!flip_ && !record_) return;
  step_ = step;
  replica_ = &replica;
  replica.updater.watch(this);
  if (replica.shards) replica.shards->watch(this);
  if (flip_) require_there(*flip_, replica.buckets);
  if (record_) record_->begin_step(step, replica);
}

void StepWatch::end_step() {
  if (record_) record_->end_step();
}

// The fault is in the first shard of the rank's.
void StepWatch::shard_gradient(std::size_t bucket, int shard) {
  if (shard == replica_->shards->run().first) flip_at(config::FlipBit::Site::gradient, bucket);
  if (record_) record_->shard_gradient(bucket, shard);
}

void StepWatch::own_gradient(std::size_t bucket) {
  if (replica_->shards) return;  // each was seen by itself
  flip_at(config::FlipBit::Site::gradient, bucket);
  if (record_) record_->own_gradient(bucket);
}

void StepWatch::mean_gradient(std::size_t bucket) {
  flip_at(config::FlipBit::Site::mean, bucket);
  if (record_) record_->mean_gradient(bucket);
}

void StepWatch::flip_at(config::FlipBit::Site site, std::size_t bucket) {
  if (!flip_ || flip_->site != site || flip_->step != step_) return;
  grad::Buckets& buckets = replica_->buckets;
  const auto id = *find(buckets, flip_->tensor);
  if (buckets.bucket_of(id) != bucket) return;
  std::vector<std::span<float>> gradients;
  for (std::size_t b = 0; b < buckets.size(); ++b) gradients.push_back(buckets.gradients(b));
  const auto views = buckets.named_views(gradients);
  float& element = element_of(views[static_cast<std::size_t>(to_int(id))].second, flip_->element);
  element =
      std::bit_cast<float>(std::bit_cast<std::uint32_t>(element) ^ (1U << static_cast<unsigned>(flip_->bit)));
}

}  // namespace tutti::train
