#include "train/record_files.h"

#include <fmt/format.h>

namespace tutti::train {

namespace fs = std::filesystem;

fs::path record_digests_path(const fs::path& run, int rank) {
  return run / kRecordFolder / fmt::format("digests-rank-{}.jsonl", rank);
}

fs::path record_step_path(const fs::path& run, std::int64_t step, int rank) {
  return run / kRecordFolder / fmt::format("step-{}", step) / fmt::format("rank-{}.safetensors", rank);
}

}  // namespace tutti::train
