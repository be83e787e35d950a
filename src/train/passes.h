// What a worker computes in a step: forward and backward of its samples, phase by phase, each in micro
// batches. With --reproducible its samples are several shards, and each is computed by itself: one after
// another or, where they form statistics together (--sync-batchnorm), in turns.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/in_turns.h"
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
  int parts = 1;       // of a global batch (RunPlan)
  int first_part = 0;  // of this worker's
  observe::Trace& trace;
  InTurns* in_turns = nullptr;  // a task for each part, where these need each other; else null
};

// Who hears what a step is at; one at a time, on a thread that computes.
struct PassesListener {
  std::function<void(std::size_t phase)> begin_phase;
  std::function<void(std::size_t phase)> begin_part = nullptr;
  std::function<void(std::size_t phase, double loss)> on_loss;  // before backward makes gradients of it
  std::function<void(std::size_t phase, bool last)> end_part = nullptr;  // its gradients are there
  // What a phase trains, for parts that take turns.
  std::function<std::vector<torch::Tensor>(std::size_t phase)> parameters = nullptr;
};

// One thread calls it.
class Passes {
 public:
  explicit Passes(PassesSetup setup);

  // What run() computes at a time, in its order: parts in micro batches, as tensors over the batch's own
  // memory.
  std::vector<models::Batch> micro_batches(const data::Batch& batch) const;

  // Adds gradients to those that are there. A part without samples is announced and adds nothing. Returns the
  // loss, of all phases together; 0 without samples. Throws ConfigError where libtorch cannot compute the
  // model in the precision asked for.
  double run(const data::Batch& batch, const PassesListener& listener);

  // Of the last run: the mean loss of each part, of all phases together.
  std::span<const double> losses() const { return losses_; }

  // Inside run(): gradients that come now are not final, for more micro batches of the phase follow.
  bool accumulating() const { return accumulating_; }

 private:
  using OnLoss = std::function<void(double)>;
  using Backward = std::function<void(const torch::Tensor& loss)>;
  models::Batch tensors_of(const data::Batch& batch) const;
  struct Part {
    std::size_t index = 0;  // among those of this worker
    std::int64_t first = 0;
    std::int64_t count = 0;
    bool last = false;
  };
  static std::vector<Part> parts_of(const data::Batch& batch);
  std::vector<models::Batch> cut(const models::Batch& whole, const Part& part) const;
  void one_after_another(std::size_t phase, const models::Batch& whole, const data::Batch& batch,
                         const PassesListener& listener);
  void in_turns(std::size_t phase, const models::Batch& whole, const data::Batch& batch,
                const PassesListener& listener);
  double in_micro_batches(const models::Phase& phase, const models::Batch& whole, const data::Batch& batch,
                          const Part& part, const OnLoss& on_loss, const Backward& backward);
  torch::Tensor forward(const models::Phase& phase, const models::Batch& samples, std::uint64_t step,
                        std::size_t part);
  double forward_and_backward(const models::Phase& phase, const models::Batch& samples,
                              const data::Batch& batch, std::size_t part, const OnLoss& on_loss,
                              const Backward& backward);

  const PassesSetup setup_;
  std::vector<std::uint64_t> forwards_;  // of the step, by part
  std::vector<double> losses_;           // by part
  bool accumulating_ = false;
};

}  // namespace tutti::train
