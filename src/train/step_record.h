// Writes down what went through a worker's steps (train/record_files.h).
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "exchange/replica.h"
#include "state/buffers.h"
#include "train/record_files.h"
#include "train/run_context.h"

namespace tutti::train {

// A worker's. The trainer's thread calls it, but for own_gradient() (exchange/gradient_watch.h). What it is
// made of outlives it. Throws RunError where it cannot write.
class StepRecord {
 public:
  // Forgets what an earlier process of this rank has recorded.
  StepRecord(const RunContext& run, const state::Buffers& buffers);

  // Whether these settings ask for one.
  static bool wanted(const config::TrainConfig& config) {
    return config.record_digests || config.record_step > 0;
  }

  // With the parameters that the run begins with.
  void start(exchange::Replica& replica);
  void begin_step(std::int64_t step, exchange::Replica& replica);
  void own_gradient(std::size_t bucket) { keep(own_, bucket); }
  void shard_gradient(std::size_t bucket, int shard);
  void mean_gradient(std::size_t bucket) { keep(mean_, bucket); }
  void end_step();

 private:
  struct Entry {
    std::string key;
    torch::Tensor value;
  };
  void keep(std::vector<torch::Tensor>& by_parameter, std::size_t bucket);
  void add(std::vector<Entry>& entries, const std::string& prefix, const state::NamedTensors& tensors) const;
  void add_kept(std::vector<Entry>& entries, const std::string& prefix,
                const std::vector<torch::Tensor>& by_parameter) const;
  void write(std::int64_t step, const std::vector<Entry>& entries);

  const RunContext& run_;
  const state::Buffers& buffers_;
  const std::string unit_;
  std::ofstream lines_;
  exchange::Replica* replica_ = nullptr;
  std::int64_t step_ = 0;
  // By parameter, of this step; undefined: not seen. Buckets are seen one at a time, own ones on one thread.
  std::vector<torch::Tensor> own_;
  std::vector<std::vector<torch::Tensor>> shards_;  // of the worker's run: its own gradients by shard
  std::vector<torch::Tensor> mean_;
};

}  // namespace tutti::train
