// What a worker computes in a step: forward and backward of its samples, phase by phase, each in micro
// batches.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/rank.h"
#include "config/train_config.h"
#include "data/loader.h"
#include "models/model.h"
#include "observe/trace.h"

namespace tutti::train {

// What passes are made with; all of it outlives them.
struct PassesSetup {
  const config::TrainConfig& config;
  std::vector<Field> fields;                 // of a batch
  const std::vector<models::Phase>& phases;  // of the model
  std::int64_t micro_batch = 0;
  int workers = 0;
  Rank rank{};
  observe::Trace& trace;
};

// One thread calls it.
class Passes {
 public:
  explicit Passes(PassesSetup setup);

  // Tensors over the batch's own memory.
  models::Batch tensors_of(const data::Batch& batch) const;

  // Adds gradients to those that are there; calls `begin_phase` with the number of each phase before it, and
  // `on_loss` with that number and each loss before backward makes gradients of it. Returns the loss, of all
  // phases together. Throws ConfigError where libtorch cannot compute the model in the precision asked for.
  double run(const data::Batch& batch, const std::function<void(std::size_t)>& begin_phase,
             const std::function<void(std::size_t, double)>& on_loss);

  // Inside run(): gradients that come now are not final, for more micro batches of the phase follow.
  bool accumulating() const { return accumulating_; }

 private:
  using OnLoss = std::function<void(double)>;
  double in_micro_batches(const models::Phase& phase, const models::Batch& whole, const data::Batch& batch,
                          const OnLoss& on_loss);
  torch::Tensor forward(const models::Phase& phase, const models::Batch& part, std::uint64_t step);
  double forward_and_backward(const models::Phase& phase, const models::Batch& part, const data::Batch& batch,
                              const OnLoss& on_loss);

  const PassesSetup setup_;
  std::uint64_t forwards_ = 0;  // of the step
  bool accumulating_ = false;
};

}  // namespace tutti::train
