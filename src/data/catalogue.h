// The data sets that tutti knows by name: what they hold, where they are found and how a copy is told to be
// whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tutti::data {

// One file of a set. Digest and length are those of the decoded content: copies of a set are wrapped by
// different gzips, or not at all, and all of them are checked against the same digest.
struct DatasetFile {
  std::string name;    // without ".gz"
  std::string sha256;  // lower-case hex
  std::uint64_t bytes = 0;
};

enum class FileRole : std::size_t { train_images, train_labels, test_images, test_labels };

struct DatasetInfo {
  std::string name;
  std::string title;
  std::size_t classes = 0;
  std::size_t channels = 0;
  std::size_t rows = 0;
  std::size_t cols = 0;
  float mean = 0;       // of pixels scaled to 0..1, over the training images
  float deviation = 1;  // likewise, the standard deviation
  std::string address;  // the publisher's folder; every file is there with ".gz"
  std::array<DatasetFile, 4> files;

  const DatasetFile& file(FileRole role) const { return files[static_cast<std::size_t>(role)]; }
};

// All of them, in the order in which people are shown them.
std::span<const DatasetInfo> datasets();

// Throws ConfigError that lists the known names.
const DatasetInfo& find_dataset(std::string_view name);

// Where the four files are; each may be plain or gzipped.
struct LocatedDataset {
  std::array<std::filesystem::path, 4> paths;

  const std::filesystem::path& path(FileRole role) const { return paths[static_cast<std::size_t>(role)]; }
};

// The file in `folder`, plain or else gzipped; empty if there is neither.
std::filesystem::path find_file(const std::filesystem::path& folder, const DatasetFile& file);

// Takes the first data root whose folder <root>/<name> holds all four files, as <file> or <file>.gz. Throws
// DataError in one line: which file is missing from a folder that has only some, or else every place that was
// looked at.
LocatedDataset locate(const DatasetInfo& info, std::span<const std::filesystem::path> roots);

}  // namespace tutti::data
