#include "data/source.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/scratch_folder.h"
#include "data/gzip.h"
#include "data/http.h"
#include "data/npm_pack.h"
#include "data/tar.h"

namespace tutti::data {
namespace {

constexpr std::uint64_t kSlack = 16 << 20;  // what an archive may hold besides the set

std::uint64_t bytes_of(const DatasetInfo& info) {
  std::uint64_t sum = 0;
  for (const DatasetFile& file : info.files) sum += file.bytes;
  return sum;
}

// Gzip makes what it cannot compress larger, by a little.
std::uint64_t most_packed_bytes(const DatasetFile& file) {
  return file.bytes + file.bytes / 100 + 4096;
}

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

class WebSupply : public Supply {
 public:
  WebSupply(std::string folder, const SourceOptions& options)
      : folder_(std::move(folder)), timeout_(options.step_timeout) {
    if (!folder_.ends_with('/')) folder_ += '/';
  }

  std::optional<Blob> get(const DatasetFile& file, const ProgressFn& progress) override {
    const HttpLimits limits{.max_bytes = most_packed_bytes(file), .step_timeout = timeout_};
    const auto report = [&](std::uint64_t done, std::uint64_t total) {
      if (progress) progress(file.name, done, total);
    };
    for (const char* ending : {".gz", ""}) {
      const std::string address = folder_ + file.name + ending;
      try {
        return Blob{address, http_get(address, limits, report)};
      } catch (const HttpStatusError& error) {
        if (error.status != 404) throw;
      }
    }
    return std::nullopt;
  }

 private:
  std::string folder_;
  std::chrono::milliseconds timeout_;
};

// Files that lie in a folder, or the one file that was named.
class FileSupply : public Supply {
 public:
  FileSupply(std::filesystem::path path, std::string set) : path_(std::move(path)), set_(std::move(set)) {}

  std::optional<Blob> get(const DatasetFile& file, const ProgressFn& progress) override {
    const std::filesystem::path path = find(file);
    if (path.empty()) return std::nullopt;
    Blob blob{path.string(), copy_of(map_file(path).bytes())};
    if (progress) progress(file.name, blob.bytes.size(), blob.bytes.size());
    return blob;
  }

 private:
  std::filesystem::path find(const DatasetFile& file) const {
    if (!std::filesystem::is_directory(path_)) {
      const std::string name = path_.filename().string();
      return name == file.name || name == file.name + ".gz" ? path_ : std::filesystem::path();
    }
    const std::filesystem::path here = find_file(path_, file);
    return here.empty() ? find_file(path_ / set_, file) : here;
  }

  std::filesystem::path path_;
  std::string set_;
};

class ArchiveSupply : public Supply {
 public:
  // `archive` is a tar file, unpacked.
  ArchiveSupply(std::vector<std::byte> archive, std::string name)
      : archive_(std::move(archive)), name_(std::move(name)), members_(list_tar(archive_, name_)) {}

  std::optional<Blob> get(const DatasetFile& file, const ProgressFn& progress) override {
    for (const char* ending : {"", ".gz"}) {
      const TarMember* member = find_member(members_, file.name + ending);
      if (member == nullptr) continue;
      if (progress) progress(file.name, member->content.size(), member->content.size());
      return Blob{fmt::format("{} in {}", member->base_name, name_), copy_of(member->content)};
    }
    return std::nullopt;
  }

 private:
  std::vector<std::byte> archive_;
  std::string name_;
  std::vector<TarMember> members_;
};

// The archive at `path` unpacked, or nothing if the file is none.
std::vector<std::byte> unpack_if_archive(const std::filesystem::path& path, std::uint64_t limit) {
  const Mapping mapping = map_file(path);
  const auto bytes = std::span<const std::byte>(mapping.bytes());
  if (is_tar(bytes)) return copy_of(bytes);
  if (!is_gzip(bytes)) return {};
  std::vector<std::byte> content = decode_gzip(bytes, path.string(), limit);
  if (!is_tar(content)) content.clear();
  return content;
}

std::unique_ptr<Supply> open_path(const DatasetInfo& info, const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return std::make_unique<FileSupply>(path, info.name);
  if (auto archive = unpack_if_archive(path, bytes_of(info) + kSlack); !archive.empty()) {
    return std::make_unique<ArchiveSupply>(std::move(archive), path.string());
  }
  const std::string name = path.filename().string();
  const bool known = std::ranges::any_of(
      info.files, [&](const DatasetFile& file) { return name == file.name || name == file.name + ".gz"; });
  if (!known) {
    throw DataError(fmt::format("{}: neither an archive nor a file of {}", path.string(), info.name));
  }
  return std::make_unique<FileSupply>(path, info.name);
}

struct Opener {
  const DatasetInfo& info;
  const SourceOptions& options;

  std::unique_ptr<Supply> operator()(const OfficialSource&) const {
    return std::make_unique<WebSupply>(info.address, options);
  }
  std::unique_ptr<Supply> operator()(const UrlSource& source) const {
    return std::make_unique<WebSupply>(source.folder, options);
  }
  std::unique_ptr<Supply> operator()(const FileSource& source) const { return open_path(info, source.path); }
  std::unique_ptr<Supply> operator()(const NpmSource& source) const {
    const ScratchFolder scratch;
    const auto path = npm_pack(source.package, scratch.path(), options.npm_program);
    auto archive = unpack_if_archive(path, bytes_of(info) + kSlack);
    return std::make_unique<ArchiveSupply>(std::move(archive), "npm package " + source.package);
  }
};

}  // namespace

Source parse_source(std::string_view text) {
  if (text.empty() || text == "official") return OfficialSource{};
  if (text.starts_with("http://") || text.starts_with("https://")) return UrlSource{std::string(text)};
  if (text.starts_with("npm:")) return NpmSource{std::string(text.substr(4))};
  return FileSource{text};
}

std::unique_ptr<Supply> open_source(const DatasetInfo& info, const Source& source,
                                    const SourceOptions& options) {
  return std::visit(Opener{info, options}, source);
}

}  // namespace tutti::data
