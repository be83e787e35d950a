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
#include <string_view>

namespace tutti::train {

inline constexpr const char* kRecordFolder = "record";
inline constexpr std::array<std::string_view, 5> kRecordStages = {"gradient", "buffer", "mean", "parameter",
                                                                  "state"};

std::filesystem::path record_digests_path(const std::filesystem::path& run, int rank);
std::filesystem::path record_step_path(const std::filesystem::path& run, std::int64_t step, int rank);

}  // namespace tutti::train
