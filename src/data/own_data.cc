#include "data/own_data.h"

#include "base/error.h"
#include "base/random.h"

namespace tutti::data {

#define TUTTI_OWN_DATA(name) OwnDataKind name();
#include "data/own_data.inc"
#undef TUTTI_OWN_DATA

namespace {

constexpr std::uint64_t kSplitSeed = 2026;

}  // namespace

std::span<const OwnDataKind> own_data_kinds() {
  static const OwnDataKind kAll[] = {
#define TUTTI_OWN_DATA(name) name(),
#include "data/own_data.inc"
#undef TUTTI_OWN_DATA
  };
  return kAll;
}

DatasetInfo own_dataset(std::string name, std::string title, const std::vector<OwnFile>& files,
                        std::shared_ptr<const Format> format) {
  DatasetInfo info;
  info.name = std::move(name);
  info.title = std::move(title);
  info.format = std::move(format);
  for (const OwnFile& file : files) {
    map_file(file.path);
    info.files.push_back({std::filesystem::absolute(file.path).string(), "", 0, file.part});
  }
  return info;
}

Part part_of(std::uint64_t sample, double test_share) {
  constexpr std::uint64_t kSteps = 1'000'000;
  const auto tested = static_cast<std::uint64_t>(test_share * static_cast<double>(kSteps));
  return mix_seed({kSplitSeed, sample}) % kSteps < tested ? Part::test : Part::training;
}

}  // namespace tutti::data
