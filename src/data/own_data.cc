#include "data/own_data.h"

#include "base/error.h"
#include "base/random.h"
#include "data/csv.h"
#include "data/folder_format.h"
#include "data/npy.h"
#include "data/text_format.h"

namespace tutti::data {
namespace {

constexpr std::uint64_t kSplitSeed = 2026;

DatasetInfo text_dataset(std::string_view path, const OwnDataOptions& /*options*/) {
  return own_dataset("text:" + std::string(path), "a text of your own", {{std::string(path)}},
                     std::make_shared<TextFormat>(TextFormat::Parts::lines));
}

DatasetInfo csv_dataset(std::string_view path, const OwnDataOptions& options) {
  std::vector<OwnFile> files = {{std::string(path)}};
  if (!options.test_file.empty()) files.push_back({options.test_file, Part::test});
  return own_dataset(
      "csv:" + std::string(path), "a table of your own", files,
      std::make_shared<CsvFormat>(CsvColumns{options.label, options.features}, options.test_share));
}

DatasetInfo npy_dataset(std::string_view path, const OwnDataOptions& options) {
  const std::size_t comma = path.find(',');
  if (comma == std::string_view::npos) {
    throw ConfigError(fmt::format("data npy:{} names one file; it wants two, npy:X.npy,Y.npy", path));
  }
  return own_dataset("npy:" + std::string(path), "arrays of your own",
                     {{std::string(path.substr(0, comma))}, {std::string(path.substr(comma + 1))}},
                     std::make_shared<NpyFormat>(options.test_share));
}

constexpr OwnDataKind kOwnData[] = {
    {"csv:", "csv:FILE", "a table with a header (--label, --features)", csv_dataset},
    {"images:", "images:FOLDER", "JPEG and PNG files, a folder a class", folder_dataset},
    {"npy:", "npy:X.npy,Y.npy", "NumPy arrays: samples, and the class of each", npy_dataset},
    {"text:", "text:FILE", "a text, for language models", text_dataset},
};

}  // namespace

std::span<const OwnDataKind> own_data_kinds() {
  return kOwnData;
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
