// Batch norm whose statistics may be those of all workers' samples together.
#pragma once

#include <torch/nn.h>

#include <functional>
#include <span>

namespace tutti::models {

// Replaces each number by its sum over all that train together: workers, or the shards of all of them. They
// all call it, in the same order.
using SumOverWorkers = std::function<void(std::span<double>)>;

// Of several passes of one worker that train together, whether this one's statistics go into the running
// ones, which are the same for all.
using Tracks = std::function<bool()>;

// torch::nn::BatchNorm2d by its names and to the bit, until it is given `sum`; from then on training
// normalises by the mean and the variance over all samples that were summed, and gradients flow through
// these.
class BatchNorm2dImpl final : public torch::nn::Module {
 public:
  explicit BatchNorm2dImpl(std::int64_t channels);
  torch::Tensor forward(const torch::Tensor& x);
  void synchronise(SumOverWorkers sum, Tracks tracks) {
    sum_ = std::move(sum);
    tracks_ = std::move(tracks);
  }

  torch::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  SumOverWorkers sum_;
  Tracks tracks_;
};
TORCH_MODULE(BatchNorm2d);

// All of a network's. Returns how many there are.
int synchronise_batch_norm(
    const torch::nn::Module& network, const SumOverWorkers& sum, const Tracks& tracks = [] { return true; });

}  // namespace tutti::models
