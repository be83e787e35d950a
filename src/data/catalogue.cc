#include "data/catalogue.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "data/own_data.h"
#include "data/published.h"

namespace tutti::data {
namespace {

namespace fs = std::filesystem;

const std::vector<DatasetInfo>& catalogue() {
  static const std::vector<DatasetInfo> kSets = published_datasets();
  return kSets;
}

}  // namespace

std::span<const DatasetInfo> datasets() {
  return catalogue();
}

DatasetInfo find_dataset(std::string_view name) {
  return find_dataset(name, {});
}

DatasetInfo find_dataset(std::string_view name, const OwnDataOptions& options) {
  const auto found = std::ranges::find(catalogue(), name, &DatasetInfo::name);
  if (found != catalogue().end()) return *found;
  for (const OwnDataKind& kind : own_data_kinds()) {
    if (name.starts_with(kind.prefix)) return kind.make(name.substr(kind.prefix.size()), options);
  }
  std::vector<std::string> known;
  for (const DatasetInfo& info : catalogue()) known.push_back(info.name);
  for (const OwnDataKind& kind : own_data_kinds()) known.emplace_back(kind.spelling);
  throw ConfigError(fmt::format("unknown data set '{}', known are: {}", name, fmt::join(known, ", ")));
}

fs::path find_file(const DatasetInfo& info, const DatasetFile& file, const fs::path& folder) {
  std::error_code ignored;
  if (file.folder) return fs::is_directory(folder / file.name, ignored) ? folder / file.name : fs::path{};
  for (const char* ending : {"", ".gz"}) {
    if (*ending != '\0' && !info.gzip) break;
    fs::path path = folder / (file.name + ending);
    if (fs::is_regular_file(path, ignored)) return path;
  }
  return {};
}

std::string spelling(const DatasetInfo& info, const DatasetFile& file) {
  return file.name + (info.gzip ? "[.gz]" : "");
}

std::string fetch_command(const DatasetInfo& info) {
  return fmt::format("tutti data fetch {}{}", info.name, info.address.empty() ? " --from FILE|URL" : "");
}

LocatedDataset locate(const DatasetInfo& info, std::span<const fs::path> roots) {
  std::vector<std::string> looked_at;
  std::string incomplete;
  for (const fs::path& root : roots) {
    LocatedDataset located{root / info.folder, {}};
    looked_at.push_back(located.folder.string());
    const DatasetFile* missing = nullptr;
    for (const DatasetFile& file : info.files) {
      located.paths.push_back(find_file(info, file, located.folder));
      const bool needed = file.part && !file.optional;
      if (needed && located.paths.back().empty() && missing == nullptr) missing = &file;
    }
    if (missing == nullptr) return located;
    const bool some = std::ranges::any_of(located.paths, [](const auto& path) { return !path.empty(); });
    if (some && incomplete.empty()) {
      incomplete = fmt::format("{} has no {}", located.folder.string(), spelling(info, *missing));
    }
  }
  if (!incomplete.empty()) {
    throw DataError(fmt::format("data set {} is incomplete: {}; complete it with: {}", info.name, incomplete,
                                fetch_command(info)));
  }
  throw DataError(fmt::format("data set {} not found, looked at: {}; get it with: {}", info.name,
                              looked_at.empty() ? "nowhere" : fmt::format("{}", fmt::join(looked_at, ", ")),
                              fetch_command(info)));
}

}  // namespace tutti::data
