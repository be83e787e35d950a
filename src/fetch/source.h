// Where the files of a data set can come from.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/catalogue.h"

namespace tutti::fetch {

struct OfficialSource {};  // the publisher, DatasetInfo::address
struct UrlSource {
  std::string address;  // a folder, to which file names are appended, an archive (.tar, .tgz) or one file
};
struct FileSource {
  std::filesystem::path path;  // a folder, an archive (.tar, .tgz) or one of the set's files
};
struct NpmSource {
  std::string package;
};
using Source = std::variant<OfficialSource, UrlSource, FileSource, NpmSource>;

// "" or "official", "http://..." or "https://...", "npm:PACKAGE", else a path.
Source parse_source(std::string_view text);

struct SourceOptions {
  std::chrono::milliseconds step_timeout{30'000};  // for each step of a download
  std::string npm_program = "npm";
};

// `total` is 0 where it is not known.
using ProgressFn = std::function<void(std::string_view file, std::uint64_t done, std::uint64_t total)>;

// Bytes as the source holds them, plain or gzipped, not yet verified.
struct Blob {
  std::string from;  // for messages
  std::vector<std::byte> bytes;
};

// A source that is open. One thread uses it.
class Supply {
 public:
  virtual ~Supply() = default;
  // Nothing if the source does not have the file. Throws DataError or RunError.
  virtual std::optional<Blob> get(const data::DatasetFile& file, const ProgressFn& progress) = 0;
};

// `info` outlives the supply. Opens an archive or runs npm at once; folders and addresses wait to be asked.
// Throws like get(), and ConfigError if the set has no official source.
std::unique_ptr<Supply> open_source(const data::DatasetInfo& info, const Source& source,
                                    const SourceOptions& options);

}  // namespace tutti::fetch
