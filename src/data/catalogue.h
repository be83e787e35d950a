// The data sets that tutti knows by name: where they are found and how a copy is told to be whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/format.h"

namespace tutti::data {

// One file of a set. Digest and length are those of the decoded content: copies of a set are wrapped by
// different gzips, or not at all, and all of them are checked against the same digest.
struct DatasetFile {
  std::string name;    // without ".gz"
  std::string sha256;  // lower-case hex; empty for a file of one's own
  std::uint64_t bytes = 0;
  std::optional<Part> part;  // none: no run reads it, and it may be missing
  bool optional = false;     // a run works without it; a complete set has it
  bool folder = false;       // a folder of one's own, with all that lies in it
};

struct DatasetInfo {
  std::string name;
  std::string title;
  std::string folder;   // under a data root
  std::string address;  // the publisher's folder or archive (.tar.gz); empty: none that is known for certain
  bool gzip = false;    // files may be there as <file>.gz
  std::vector<DatasetFile> files;
  std::shared_ptr<const Format> format;
};

// All of them, in the order in which people are shown them.
std::span<const DatasetInfo> datasets();

struct OwnDataOptions;

// A set of the catalogue, or data of one's own (data/own_data.h), such as "csv:FILE". Throws ConfigError that
// lists the known names, DataError if a file cannot be read.
DatasetInfo find_dataset(std::string_view name, const OwnDataOptions& options);
DatasetInfo find_dataset(std::string_view name);

// Where a set's files are, in their order; empty where one is missing that is not needed.
struct LocatedDataset {
  std::filesystem::path folder;
  std::vector<std::filesystem::path> paths;
};

// The file in `folder`, plain or else, if the set may be, gzipped; empty if there is neither.
std::filesystem::path find_file(const DatasetInfo& info, const DatasetFile& file,
                                const std::filesystem::path& folder);

// The file's name as it may be spelled: "train.txt[.gz]".
std::string spelling(const DatasetInfo& info, const DatasetFile& file);

// How to get a set: "tutti data fetch NAME", with what must be added.
std::string fetch_command(const DatasetInfo& info);

// Takes the first data root whose folder for the set holds every file that a run needs. Throws DataError in
// one line: which file is missing from a folder that has only some, or else every place that was looked at.
LocatedDataset locate(const DatasetInfo& info, std::span<const std::filesystem::path> roots);

}  // namespace tutti::data
