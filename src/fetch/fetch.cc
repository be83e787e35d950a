#include "fetch/fetch.h"

#include <fmt/ranges.h>

#include "base/crypto.h"
#include "base/error.h"
#include "base/file.h"
#include "data/gzip.h"

namespace tutti::fetch {
namespace {

// Hashes what `bytes` decode to, piece by piece, and stops as soon as there is too much of it.
std::string decoded_digest(std::span<const std::byte> bytes, const std::string& from,
                           std::uint64_t expected) {
  data::GzipReader reader(bytes, from);
  Sha256 hash;
  std::vector<std::byte> piece(256 << 10);
  std::uint64_t total = 0;
  while (const std::size_t n = reader.read(piece)) {
    total += n;
    if (total > expected) throw DataError(fmt::format("{}: decodes to more than {} bytes", from, expected));
    hash.update(std::span(piece).first(n));
  }
  return to_hex(hash.digest());
}

void require_published(const data::DatasetInfo& info) {
  if (info.files[0].sha256.empty()) {
    throw ConfigError(fmt::format("{} is a file of your own: it cannot be fetched or verified", info.name));
  }
}

bool is_whole(const data::DatasetFile& file, const std::filesystem::path& path) {
  if (path.empty()) return false;
  try {
    verify_content(file, map_file(path).bytes(), path.string());
    return true;
  } catch (const DataError&) {
    return false;
  }
}

std::filesystem::path install(const data::DatasetInfo& info, const data::DatasetFile& file, const Blob& blob,
                              const std::filesystem::path& folder) {
  verify_content(file, blob.bytes, blob.from);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RunError(fmt::format("cannot make folder {}: {}", folder.string(), error.message()));
  std::filesystem::path plain = folder / file.name;
  std::filesystem::path packed = folder / (file.name + ".gz");
  const bool gzip = data::is_gzip(blob.bytes);
  if (gzip && !info.gzip) {
    write_file_atomically(plain, data::decode_gzip(blob.bytes, blob.from, file.bytes));
    return plain;
  }
  write_file_atomically(gzip ? packed : plain, blob.bytes);
  // A damaged copy in the other form would be found first, or later.
  std::filesystem::remove(gzip ? plain : packed, error);
  return gzip ? packed : plain;
}

}  // namespace

void verify_content(const data::DatasetFile& file, std::span<const std::byte> bytes,
                    const std::string& from) {
  if (!data::is_gzip(bytes) && bytes.size() != file.bytes) {
    throw DataError(fmt::format("{}: {} bytes, expected {}", from, bytes.size(), file.bytes));
  }
  const std::string found =
      data::is_gzip(bytes) ? decoded_digest(bytes, from, file.bytes) : sha256_hex(bytes);
  if (found != file.sha256) {
    throw DataError(fmt::format("{}: SHA-256 of the content is {}, expected {}", from, found, file.sha256));
  }
}

void verify(const data::DatasetInfo& info, const data::LocatedDataset& located) {
  require_published(info);
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < info.files.size(); ++i) {
    const data::DatasetFile& file = info.files[i];
    if (!located.paths[i].empty()) {
      verify_content(file, map_file(located.paths[i]).bytes(), located.paths[i].string());
    } else if (file.part) {
      missing.push_back(spelling(info, file));
    }
  }
  if (!missing.empty()) {
    throw DataError(fmt::format("data set {}: what is there is whole, but {} has no {}; complete it with: {}",
                                info.name, located.folder.string(), fmt::join(missing, ", "),
                                fetch_command(info)));
  }
}

data::LocatedDataset fetch(const data::DatasetInfo& info, const std::filesystem::path& root,
                           const Source& source, const ProgressFn& progress, const SourceOptions& options) {
  require_published(info);
  data::LocatedDataset located{root / info.folder, {}};
  std::unique_ptr<Supply> supply;  // opened only if something is missing
  std::string missing;
  for (const data::DatasetFile& file : info.files) {
    std::filesystem::path& path = located.paths.emplace_back(data::find_file(info, file, located.folder));
    if (is_whole(file, path)) continue;
    if (!supply) supply = open_source(info, source, options);
    if (const auto blob = supply->get(file, progress)) {
      path = install(info, file, *blob, located.folder);
    } else if (file.part && missing.empty()) {
      missing = spelling(info, file);
    }
  }
  if (!missing.empty()) throw DataError(fmt::format("the source has no {}", missing));
  return located;
}

}  // namespace tutti::fetch
