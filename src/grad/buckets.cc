#include "grad/buckets.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/error.h"

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

std::vector<Parameter> trained_parameters(const torch::nn::Module& module, const Tables& without,
                                          const std::vector<std::string>& phases) {
  TUTTI_CHECK(phases.size() == 1 || without.size() == 0, "tables are exchanged once a step");
  std::vector<Parameter> found;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    const bool again = !seen.insert(item.value().unsafeGetTensorImpl()).second;
    if (again || !item.value().requires_grad() || without.contains(item.key())) continue;
    const auto phase =
        std::ranges::find_if(phases, [&](const std::string& begin) { return item.key().starts_with(begin); });
    TUTTI_CHECK(phase != phases.end(), "{} has no phase", item.key());
    found.push_back({item.key(), item.value(), static_cast<std::size_t>(phase - phases.begin())});
  }
  return found;
}

Buckets::Buckets(std::vector<Parameter> parameters, std::size_t bucket_bytes,
                 const Allocate& allocate_gradients, int places)
    : places_(places) {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> phase_of;
  for (Parameter& p : parameters) {
    if (p.tensor.scalar_type() != torch::kFloat32 || !p.tensor.device().is_cpu()) {
      throw ConfigError(fmt::format("parameter {} is {} on {}; only float32 on the CPU can be exchanged",
                                    p.name, c10::toString(p.tensor.scalar_type()), p.tensor.device().str()));
    }
    counts.push_back(static_cast<std::size_t>(p.tensor.numel()));
    phase_of.push_back(p.phase);
    phased_ = phased_ || p.phase > 0;
    names_.push_back(std::move(p.name));
    tensors_.push_back(std::move(p.tensor));
  }
  layouts_ = plan_buckets(counts, bucket_bytes, phase_of);
  bucket_of_.resize(tensors_.size());
  views_.resize(tensors_.size());

  const torch::NoGradGuard no_grad;
  // All memory first: where there is not enough, the parameters stay as they are.
  for (const BucketLayout& layout : layouts_) {
    storage_.push_back(torch::zeros({static_cast<std::int64_t>(layout.count)}));
    parameters_.emplace_back(storage_.back().data_ptr<float>(), layout.count);
    const auto memory = allocate_gradients(static_cast<std::size_t>(places) * layout.count * sizeof(float));
    gradients_.emplace_back(reinterpret_cast<float*>(memory.data()), layout.count);
  }
  for (std::size_t b = 0; b < layouts_.size(); ++b) {
    for (const Slice& s : layouts_[b].slices) {
      const auto i = static_cast<std::size_t>(to_int(s.param));
      bucket_of_[i] = b;
      // A view with gaps, or of one element many times, would not fit its place.
      if (!tensors_[i].is_non_overlapping_and_dense()) tensors_[i].set_data(tensors_[i].data().contiguous());
      torch::Tensor place = storage_[b].as_strided(tensors_[i].sizes(), tensors_[i].strides(),
                                                   static_cast<std::int64_t>(s.first));
      place.copy_(tensors_[i]);
      tensors_[i].set_data(place);
      views_[i] = view(gradients_[b], s);
      tensors_[i].mutable_grad() = views_[i];
    }
  }
}

// A storage of ours stays alive as long as a parameter is a view of it. Memory that somebody else has lent
// (move_parameters) does not, nor do the gradients' places.
Buckets::~Buckets() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].mutable_grad().reset();
    const std::size_t bucket = bucket_of_[i];
    const bool moved = parameters_[bucket].data() != storage_[bucket].data_ptr<float>();
    if (moved) tensors_[i].set_data(tensors_[i].detach().clone());
  }
}

torch::Tensor Buckets::view(std::span<float> flat, const Slice& s) const {
  const torch::Tensor& like = tensors_[static_cast<std::size_t>(to_int(s.param))];
  return torch::from_blob(flat.data() + s.first, like.sizes(), like.strides(), torch::kFloat32);
}

std::vector<torch::Tensor> Buckets::tensors_of(std::size_t phase) const {
  std::vector<torch::Tensor> tensors;
  for (const BucketLayout& layout : layouts_) {
    if (layout.phase != phase) continue;
    for (const Slice& slice : layout.slices) {
      tensors.push_back(tensors_[static_cast<std::size_t>(to_int(slice.param))]);
    }
  }
  return tensors;
}

std::vector<std::span<float>> Buckets::all_parameters() const {
  return parameters_;
}

void Buckets::zero_gradients() {
  for (const auto& g : gradients_) std::ranges::fill(g, 0.0F);
}

void Buckets::drop_gradients() {
  for (torch::Tensor& tensor : tensors_) tensor.mutable_grad().reset();
  for (std::size_t b = 0; b < layouts_.size(); ++b) {
    const auto& slices = layouts_[b].slices;
    for (std::size_t s = 0; s < slices.size(); ++s) {
      const std::size_t end = slices[s].first + slices[s].count;
      const std::size_t next = s + 1 < slices.size() ? slices[s + 1].first : gradients_[b].size();
      std::ranges::fill(gradients_[b].subspan(end, next - end), 0.0F);
    }
  }
}

// What another phase trains gets no gradient in this one: its buckets may be on their way already.
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
    hooks_.emplace_back(tensors_[i], [this, shared, id, i] {
      bring_back(i);
      (*shared)(id);
    });
  }
}

// torch's zero_grad() may set gradients to none; backward then makes a tensor of its own.
void Buckets::bring_back(std::size_t parameter) {
  torch::Tensor& gradient = tensors_[parameter].mutable_grad();
  const torch::NoGradGuard no_grad;
  if (!gradient.defined()) {  // a function of the user's gave none, or nobody has computed one
    gradient = views_[parameter].zero_();
    return;
  }
  if (!gradient.is_sparse() && gradient.data_ptr() == views_[parameter].data_ptr()) return;
  views_[parameter].copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
  gradient = views_[parameter];
}

void Buckets::gather_stray_gradients(const std::function<bool(ParamId)>& has_left) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    torch::Tensor& gradient = tensors_[i].mutable_grad();
    const bool in_place =
        gradient.defined() && !gradient.is_sparse() && gradient.data_ptr() == views_[i].data_ptr();
    if (in_place) continue;
    if (!has_left(ParamId{static_cast<int>(i)})) {
      bring_back(i);
    } else if (!gradient.defined()) {
      gradient = views_[i];  // what is on its way is not touched
    } else {
      throw ConfigError(fmt::format(
          "the gradient of {} was replaced after the backward pass, when it had left already", names_[i]));
    }
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
