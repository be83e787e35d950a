#include "data/catalogue.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace tutti::data {
namespace {

constexpr std::uint64_t kTrainImageBytes = 16 + 60'000 * 28 * 28;
constexpr std::uint64_t kTestImageBytes = 16 + 10'000 * 28 * 28;
constexpr std::uint64_t kTrainLabelBytes = 8 + 60'000;
constexpr std::uint64_t kTestLabelBytes = 8 + 10'000;

// Both sets have the same shape and the same file names; only the content differs.
DatasetInfo like_mnist(std::string name, std::string title, float mean, float deviation, std::string address,
                       std::array<std::string, 4> sha256) {
  return {std::move(name),
          std::move(title),
          10,
          1,
          28,
          28,
          mean,
          deviation,
          std::move(address),
          {DatasetFile{"train-images-idx3-ubyte", std::move(sha256[0]), kTrainImageBytes},
           DatasetFile{"train-labels-idx1-ubyte", std::move(sha256[1]), kTrainLabelBytes},
           DatasetFile{"t10k-images-idx3-ubyte", std::move(sha256[2]), kTestImageBytes},
           DatasetFile{"t10k-labels-idx1-ubyte", std::move(sha256[3]), kTestLabelBytes}}};
}

const std::vector<DatasetInfo>& catalogue() {
  static const std::vector<DatasetInfo> kSets = {
      like_mnist("mnist", "MNIST handwritten digits", 0.1307F, 0.3081F,
                 "https://ossci-datasets.s3.amazonaws.com/mnist/",
                 {"ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                  "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                  "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                  "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}),
      like_mnist("fashion-mnist", "Fashion-MNIST articles of clothing", 0.2860F, 0.3530F,
                 "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                 {"c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                  "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                  "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                  "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}),
  };
  return kSets;
}

std::string comma_separated(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::span<const DatasetInfo> datasets() {
  return catalogue();
}

const DatasetInfo& find_dataset(std::string_view name) {
  const auto found = std::ranges::find(catalogue(), name, &DatasetInfo::name);
  if (found != catalogue().end()) return *found;
  std::vector<std::string> known;
  for (const DatasetInfo& info : catalogue()) known.push_back(info.name);
  throw ConfigError(fmt::format("unknown data set '{}', known are: {}", name, comma_separated(known)));
}

std::filesystem::path find_file(const std::filesystem::path& folder, const DatasetFile& file) {
  std::error_code ignored;
  for (const char* ending : {"", ".gz"}) {
    std::filesystem::path path = folder / (file.name + ending);
    if (std::filesystem::is_regular_file(path, ignored)) return path;
  }
  return {};
}

LocatedDataset locate(const DatasetInfo& info, std::span<const std::filesystem::path> roots) {
  std::vector<std::string> looked_at;
  std::string incomplete;
  for (const std::filesystem::path& root : roots) {
    const std::filesystem::path folder = root / info.name;
    looked_at.push_back(folder.string());
    LocatedDataset located;
    std::ranges::transform(info.files, located.paths.begin(),
                           [&](const DatasetFile& file) { return find_file(folder, file); });
    const auto missing = std::ranges::find(located.paths, std::filesystem::path());
    if (missing == located.paths.end()) return located;
    const bool some = std::ranges::any_of(located.paths, [](const auto& path) { return !path.empty(); });
    if (some && incomplete.empty()) {
      const auto which = static_cast<std::size_t>(missing - located.paths.begin());
      incomplete = fmt::format("{} has no {}[.gz]", folder.string(), info.files[which].name);
    }
  }
  if (!incomplete.empty()) {
    throw DataError(fmt::format("data set {} is incomplete: {}; complete it with: tutti data fetch {}",
                                info.name, incomplete, info.name));
  }
  throw DataError(fmt::format("data set {} not found, looked at: {}; get it with: tutti data fetch {}",
                              info.name, looked_at.empty() ? "nowhere" : comma_separated(looked_at),
                              info.name));
}

}  // namespace tutti::data
