#include "grad/buckets.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "grad/after_accumulation.h"

namespace tutti::grad {
namespace {

constexpr std::size_t kLine = 64 / sizeof(float);

}  // namespace

std::vector<BucketLayout> plan_buckets(std::span<const std::size_t> parameter_counts,
                                       std::size_t bucket_bytes, std::span<const std::size_t> phases) {
  std::vector<BucketLayout> buckets;
  const std::size_t last = phases.empty() ? 0 : *std::ranges::max_element(phases);
  for (std::size_t phase = 0; phase <= last; ++phase) {
    const std::size_t first = buckets.size();
    for (std::size_t i = parameter_counts.size(); i-- > 0;) {
      if (!phases.empty() && phases[i] != phase) continue;
      if (buckets.size() == first || buckets.back().count * sizeof(float) >= bucket_bytes) {
        buckets.push_back({.slices = {}, .phase = phase});
      }
      BucketLayout& bucket = buckets.back();
      bucket.slices.push_back({ParamId{static_cast<int>(i)}, bucket.count, parameter_counts[i]});
      bucket.count += (parameter_counts[i] + kLine - 1) / kLine * kLine;
    }
  }
  return buckets;
}

Buckets::Buckets(torch::nn::Module& module, std::size_t bucket_bytes, const Allocate& allocate_gradients,
                 const Tables& without, const std::vector<std::string>& phases)
    : phased_(phases.size() > 1) {
  TUTTI_CHECK(!phased_ || without.size() == 0, "tables are exchanged once a step");
  std::vector<std::size_t> counts;
  std::vector<std::size_t> phase_of;
  for (const auto& item : module.named_parameters()) {
    if (without.contains(item.key())) continue;
    TUTTI_CHECK(item.value().scalar_type() == torch::kFloat32 && item.value().device().is_cpu(), "{}",
                item.key());
    names_.push_back(item.key());
    tensors_.push_back(item.value());
    counts.push_back(static_cast<std::size_t>(item.value().numel()));
    const auto phase =
        std::ranges::find_if(phases, [&](const std::string& begin) { return item.key().starts_with(begin); });
    TUTTI_CHECK(phase != phases.end(), "{} has no phase", item.key());
    phase_of.push_back(static_cast<std::size_t>(phase - phases.begin()));
  }
  layouts_ = plan_buckets(counts, bucket_bytes, phase_of);
  bucket_of_.resize(tensors_.size());

  const torch::NoGradGuard no_grad;
  for (std::size_t b = 0; b < layouts_.size(); ++b) {
    const std::size_t count = layouts_[b].count;
    storage_.push_back(torch::zeros({static_cast<std::int64_t>(count)}));
    parameters_.emplace_back(storage_.back().data_ptr<float>(), count);
    gradients_.emplace_back(reinterpret_cast<float*>(allocate_gradients(count * sizeof(float)).data()),
                            count);
    for (const Slice& s : layouts_[b].slices) {
      const auto i = static_cast<std::size_t>(to_int(s.param));
      bucket_of_[i] = b;
      torch::Tensor place = storage_[b].as_strided(tensors_[i].sizes(), tensors_[i].strides(),
                                                   static_cast<std::int64_t>(s.first));
      place.copy_(tensors_[i]);
      tensors_[i].set_data(place);
      tensors_[i].mutable_grad() = view(gradients_[b], s);
    }
  }
}

torch::Tensor Buckets::view(std::span<float> flat, const Slice& s) const {
  const torch::Tensor& like = tensors_[static_cast<std::size_t>(to_int(s.param))];
  return torch::from_blob(flat.data() + s.first, like.sizes(), like.strides(), torch::kFloat32);
}

std::vector<std::span<float>> Buckets::all_parameters() const {
  return parameters_;
}

void Buckets::zero_gradients() {
  for (const auto& g : gradients_) std::ranges::fill(g, 0.0F);
}

void Buckets::begin_phase(std::size_t phase) {
  if (!phased_) return;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].set_requires_grad(layouts_[bucket_of_[i]].phase == phase);
  }
}

void Buckets::move_parameters(std::size_t bucket, std::span<float> place, bool keep) {
  TUTTI_CHECK(place.size() == parameters_[bucket].size());
  if (keep) std::ranges::copy(parameters_[bucket], place.begin());
  const torch::NoGradGuard no_grad;
  for (const Slice& s : layouts_[bucket].slices) {
    tensors_[static_cast<std::size_t>(to_int(s.param))].set_data(view(place, s));
  }
  parameters_[bucket] = place;
}

void Buckets::on_gradient(std::function<void(ParamId)> hook) {
  const auto shared = std::make_shared<std::function<void(ParamId)>>(std::move(hook));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const ParamId id{static_cast<int>(i)};
    accumulators_.push_back(call_after_accumulation(tensors_[i], [shared, id] { (*shared)(id); }));
  }
}

std::vector<std::pair<std::string, torch::Tensor>> Buckets::named_views(
    const std::vector<std::span<float>>& flat) const {
  std::vector<std::pair<std::string, torch::Tensor>> views(names_.size());
  for (std::size_t b = 0; b < layouts_.size(); ++b) {
    for (const Slice& s : layouts_[b].slices) {
      const auto i = static_cast<std::size_t>(to_int(s.param));
      views[i] = {names_[i], view(flat[b], s)};
    }
  }
  return views;
}

}  // namespace tutti::grad
