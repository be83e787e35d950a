// Parameters and gradients as views of flat memory.
//
// Backward produces gradients from the last layer to the first. Parameters are laid out in that order and cut
// into *buckets* of about equal size: bucket 0 holds the last layers, is full first and may leave first.
// From then on each parameter's data and each gradient is a view of its place in its bucket, so backward
// writes where the peers will read and an optimizer updates a bucket in one flat loop.
//
// A step may have several *phases*, each of which trains parameters of its own. A bucket holds parameters of
// one phase, and the buckets of the first phase come first.
//
// A parameter may keep another memory order than its shape suggests (channels_last): the view has the
// strides, the bucket has the bytes. Names, shapes and logical order come back when tensors are exported.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "grad/after_accumulation.h"
#include "grad/tables.h"

namespace tutti::grad {

// Index into the parameters in buckets, in the module's order.
enum class ParamId : int {};
constexpr int to_int(ParamId id) {
  return static_cast<int>(id);
}

struct Slice {
  ParamId param{};
  std::size_t first = 0;  // element in the bucket
  std::size_t count = 0;
};

struct BucketLayout {
  std::vector<Slice> slices;
  std::size_t count = 0;  // elements, with padding: each slice starts on a cache line
  std::size_t phase = 0;
};

// Cuts parameters of these sizes, last first, into buckets of about `bucket_bytes`. A bucket closes when it
// reaches that, or its phase ends; a parameter is never split. `phases` has the phase of each parameter;
// none: there is but one. Pure.
std::vector<BucketLayout> plan_buckets(std::span<const std::size_t> parameter_counts,
                                       std::size_t bucket_bytes, std::span<const std::size_t> phases = {});

// A tensor that is trained, and where in a step.
struct Parameter {
  std::string name;
  torch::Tensor tensor;
  std::size_t phase = 0;
};

// Those of a module that want gradients, each once, also where modules share it; but for those of `without`.
// Each phase has the parameters whose names begin with its text and with none before it.
std::vector<Parameter> trained_parameters(const torch::nn::Module& module, const Tables& without = {},
                                          const std::vector<std::string>& phases = {""});

class Buckets {
 public:
  // Where a bucket's gradients shall live: given bytes, returns zeroed memory that outlives the Buckets.
  using Allocate = std::function<std::span<std::byte>(std::size_t)>;

  // Moves these parameters into buckets and makes their gradients views. A bucket has so many places for
  // gradients, the first of which backward writes to. Throws ConfigError for a parameter that is not of
  // float32, on the CPU.
  Buckets(std::vector<Parameter> parameters, std::size_t bucket_bytes, const Allocate& allocate_gradients,
          int places = 1);

  // The same for all that a module trains (trained_parameters()).
  Buckets(const torch::nn::Module& module, std::size_t bucket_bytes, const Allocate& allocate_gradients,
          const Tables& without = {}, const std::vector<std::string>& phases = {""})
      : Buckets(trained_parameters(module, without, phases), bucket_bytes, allocate_gradients) {}

  // The parameters keep their values, in memory of their own, and have no gradients: what those lay in may be
  // gone.
  ~Buckets();
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  std::size_t size() const { return layouts_.size(); }
  const BucketLayout& layout(std::size_t bucket) const { return layouts_[bucket]; }
  std::size_t bucket_of(ParamId id) const { return bucket_of_[static_cast<std::size_t>(to_int(id))]; }
  std::size_t parameter_count() const { return bucket_of_.size(); }
  const std::string& name_of(ParamId id) const { return names_[static_cast<std::size_t>(to_int(id))]; }
  std::int64_t count_of(ParamId id) const { return tensors_[static_cast<std::size_t>(to_int(id))].numel(); }
  std::int64_t dimensions_of(ParamId id) const {
    return tensors_[static_cast<std::size_t>(to_int(id))].dim();
  }

  // What a phase trains.
  std::vector<torch::Tensor> tensors_of(std::size_t phase) const;

  std::span<float> parameters(std::size_t bucket) { return parameters_[bucket]; }
  std::span<float> gradients(std::size_t bucket) { return gradients_[bucket]; }
  int places() const { return places_; }
  std::span<float> place(std::size_t bucket, int place) {
    const auto count = gradients_[bucket].size();
    return {gradients_[bucket].data() + static_cast<std::size_t>(place) * count, count};
  }
  std::vector<std::span<float>> all_parameters() const;  // by bucket
  void zero_gradients();
  // No parameter has a gradient then, and what lies between their places in a bucket is zero. Backward makes
  // tensors of its own for the next ones, which cost a copy into the bucket; that is less than to clear it
  // and to add to what is there.
  void drop_gradients();

  // The next backward leaves gradients in this phase's parameters alone.
  void begin_phase(std::size_t phase);

  // The bucket's parameters live at `place` from now on, as long as the Buckets. With `keep` they take their
  // values along; without, they have those that are there.
  void move_parameters(std::size_t bucket, std::span<float> place, bool keep);

  // Calls hook(id) from backward, on its thread, each time a parameter's gradient is final. Call once; stays
  // as long as the Buckets. A gradient that backward has laid elsewhere, because somebody had set it to none
  // or because it was dropped, lies in its bucket again when the hook is called.
  void on_gradient(std::function<void(ParamId)> hook);

  // At the end of a step, before anybody waits for its gradients. One that somebody has set to none, and that
  // no backward has brought back, counts as zero; one that somebody has laid elsewhere is taken into its
  // bucket. Where `has_left` says that a gradient is on its way already, it is too late to change it: throws
  // ConfigError that names it.
  void gather_stray_gradients(const std::function<bool(ParamId)>& has_left);

  // A flat buffer laid out like `bucket`'s parameters (e.g. an optimizer's state), seen as named tensors of
  // the parameters' shapes; `flat` is by bucket. Views: writing to them writes the buffer.
  std::vector<std::pair<std::string, torch::Tensor>> named_views(
      const std::vector<std::span<float>>& flat) const;

 private:
  torch::Tensor view(std::span<float> flat, const Slice& slice) const;
  void bring_back(std::size_t parameter);

  std::vector<std::string> names_;
  std::vector<torch::Tensor> tensors_;  // the parameters
  std::vector<torch::Tensor> views_;    // their gradients, in the buckets
  std::vector<AccumulationHook> hooks_;
  std::vector<BucketLayout> layouts_;
  bool phased_ = false;
  std::vector<std::size_t> bucket_of_;
  std::vector<torch::Tensor> storage_;  // owns the parameters' memory
  std::vector<std::span<float>> parameters_;
  std::vector<std::span<float>> gradients_;  // the first place of each; the others follow it
  int places_ = 1;
};

}  // namespace tutti::grad
