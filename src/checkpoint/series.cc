#include "checkpoint/series.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace tutti::checkpoint {

namespace fs = std::filesystem;

std::optional<Origin> find_origin(const fs::path& run_or_step) {
  std::error_code ignored;
  if (fs::is_regular_file(run_or_step / "manifest.json", ignored)) {
    return Origin{load(run_or_step), {}};
  }
  auto newest_first = list(run_or_step);
  std::ranges::reverse(newest_first);
  std::vector<std::string> notes;
  for (const auto& step : newest_first) {
    try {
      Origin origin{load(step.path), {}};
      for (const auto& damage : notes) {
        origin.notes.push_back(
            fmt::format("damaged: {}; going on from step {} before it", damage, step.step));
      }
      return origin;
    } catch (const DataError& e) {
      notes.emplace_back(e.what());
    }
  }
  if (notes.empty()) return std::nullopt;
  throw DataError(
      fmt::format("{}: no checkpoint there is whole; the newest: {}", run_or_step.string(), notes.front()));
}

std::vector<SetAside> set_aside_later(const fs::path& run, std::int64_t step) {
  std::vector<SetAside> moved;
  for (const auto& later : list(run)) {
    if (later.step <= step) continue;
    const std::string place = later.path.string() + ".superseded";
    fs::path free = place;
    for (int n = 2; fs::exists(free); ++n) free = fmt::format("{}-{}", place, n);
    fs::rename(later.path, free);
    moved.push_back({later.path, free});
  }
  if (!moved.empty()) sync_folder(run / "checkpoints");
  return moved;
}

}  // namespace tutti::checkpoint
