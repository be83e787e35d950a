// What went through a worker's steps, for those who look where two runs begin to differ (`tutti bisect`).
//
//   RUN/record/digests-rank-R.jsonl         a line a step: 64 bits (base/xxh64.h) of everything below
//   RUN/record/step-N/rank-R.safetensors    of one step, everything below itself
//
//   gradient/UNIT/TENSOR     before the exchange; the unit is who has computed it, "rank-R", or with
//                            --reproducible for what, "shard-S"
//   buffer/UNIT/TENSOR       what the forward pass has left beside the parameters: running statistics, of
//                            this rank or of all "shards"
//   mean/TENSOR              of the gradients, after the exchange; where workers see it
//   parameter/TENSOR         after the update
//   state/SLOT.TENSOR        of the optimizer, where workers update
//
// In this order, and within it in the model's. Before the first step stands a line with the parameters that
// the run begins with, under the number of steps behind them. Embedding tables that go by rows are left out:
// a worker has only those rows of them that it reads.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/replica.h"
#include "state/buffers.h"
#include "train/run_context.h"

namespace tutti::train {

inline constexpr const char* kRecordFolder = "record";
inline constexpr std::array<std::string_view, 5> kRecordStages = {"gradient", "buffer", "mean", "parameter",
                                                                  "state"};

std::filesystem::path record_digests_path(const std::filesystem::path& run, int rank);
std::filesystem::path record_step_path(const std::filesystem::path& run, std::int64_t step, int rank);

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
