#include "fetch/source.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/scratch_folder.h"
#include "data/gzip.h"
#include "fetch/http.h"
#include "fetch/npm_pack.h"
#include "fetch/tar.h"

namespace tutti::fetch {
namespace {

constexpr std::uint64_t kSlack = 16 << 20;  // what an archive may hold besides the set

std::uint64_t bytes_of(const data::DatasetInfo& info) {
  std::uint64_t sum = 0;
  for (const data::DatasetFile& file : info.files) sum += file.bytes;
  return sum;
}

// Gzip makes what it cannot compress larger, by a little.
std::uint64_t most_packed_bytes(const data::DatasetFile& file) {
  return file.bytes + file.bytes / 100 + 4096;
}

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// The last part of a path or an address, without ".gz".
std::string_view bare_name(std::string_view address) {
  address.remove_prefix(address.rfind('/') + 1);
  if (address.ends_with(".gz")) address.remove_suffix(3);
  return address;
}

bool is_archive_name(std::string_view address) {
  return address.ends_with(".tgz") || bare_name(address).ends_with(".tar");
}

HttpProgress report_for(std::string_view file, const ProgressFn& progress) {
  return [file, &progress](std::uint64_t done, std::uint64_t total) {
    if (progress) progress(file, done, total);
  };
}

// A folder of the web, or one file of it.
class WebSupply : public Supply {
 public:
  WebSupply(std::string address, const SourceOptions& options)
      : address_(std::move(address)), timeout_(options.step_timeout) {}

  std::optional<Blob> get(const data::DatasetFile& file, const ProgressFn& progress) override {
    const HttpLimits limits{.max_bytes = most_packed_bytes(file), .step_timeout = timeout_};
    for (const std::string& address : addresses_of(file)) {
      try {
        return Blob{address, http_get(address, limits, report_for(file.name, progress))};
      } catch (const HttpStatusError& error) {
        if (error.status != 404) throw;
      }
    }
    return std::nullopt;
  }

 private:
  std::vector<std::string> addresses_of(const data::DatasetFile& file) const {
    if (bare_name(address_) == file.name) return {address_};
    const std::string folder = address_ + (address_.ends_with('/') ? "" : "/");
    return {folder + file.name + ".gz", folder + file.name};
  }

  std::string address_;
  std::chrono::milliseconds timeout_;
};

// Files that lie in a folder, or the one file that was named.
class FileSupply : public Supply {
 public:
  FileSupply(std::filesystem::path path, const data::DatasetInfo& info)
      : path_(std::move(path)), info_(info) {}

  std::optional<Blob> get(const data::DatasetFile& file, const ProgressFn& progress) override {
    const std::filesystem::path path = find(file);
    if (path.empty()) return std::nullopt;
    Blob blob{path.string(), copy_of(map_file(path).bytes())};
    if (progress) progress(file.name, blob.bytes.size(), blob.bytes.size());
    return blob;
  }

 private:
  std::filesystem::path find(const data::DatasetFile& file) const {
    if (!std::filesystem::is_directory(path_)) {
      return bare_name(path_.string()) == file.name ? path_ : std::filesystem::path();
    }
    const std::filesystem::path here = data::find_file(info_, file, path_);
    return here.empty() ? data::find_file(info_, file, path_ / info_.folder) : here;
  }

  std::filesystem::path path_;
  const data::DatasetInfo& info_;
};

class ArchiveSupply : public Supply {
 public:
  // `archive` is a tar file, unpacked.
  ArchiveSupply(std::vector<std::byte> archive, std::string name)
      : archive_(std::move(archive)), name_(std::move(name)), members_(list_tar(archive_, name_)) {}

  std::optional<Blob> get(const data::DatasetFile& file, const ProgressFn& progress) override {
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

// The archive unpacked, or nothing if the bytes are none.
std::vector<std::byte> unpack_if_archive(std::span<const std::byte> bytes, const std::string& name,
                                         std::uint64_t limit) {
  if (is_tar(bytes)) return copy_of(bytes);
  if (!data::is_gzip(bytes)) return {};
  std::vector<std::byte> content = data::decode_gzip(bytes, name, limit);
  if (!is_tar(content)) content.clear();
  return content;
}

// An archive of the web, fetched when the first file is asked for.
class WebArchiveSupply : public Supply {
 public:
  WebArchiveSupply(std::string address, std::uint64_t limit, const SourceOptions& options)
      : address_(std::move(address)), limits_{.max_bytes = limit, .step_timeout = options.step_timeout} {}

  std::optional<Blob> get(const data::DatasetFile& file, const ProgressFn& progress) override {
    if (!archive_) {
      const auto packed = http_get(address_, limits_, report_for(bare_name(address_), progress));
      auto archive = unpack_if_archive(packed, address_, limits_.max_bytes);
      if (archive.empty()) throw DataError(fmt::format("{}: not a tar archive", address_));
      archive_.emplace(std::move(archive), address_);
    }
    return archive_->get(file, progress);
  }

 private:
  std::string address_;
  HttpLimits limits_;
  std::optional<ArchiveSupply> archive_;
};

std::unique_ptr<Supply> open_path(const data::DatasetInfo& info, const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return std::make_unique<FileSupply>(path, info);
  auto archive = unpack_if_archive(map_file(path).bytes(), path.string(), bytes_of(info) + kSlack);
  if (!archive.empty()) return std::make_unique<ArchiveSupply>(std::move(archive), path.string());
  if (std::ranges::find(info.files, bare_name(path.string()), &data::DatasetFile::name) == info.files.end()) {
    throw DataError(fmt::format("{}: neither an archive nor a file of {}", path.string(), info.name));
  }
  return std::make_unique<FileSupply>(path, info);
}

struct Opener {
  const data::DatasetInfo& info;
  const SourceOptions& options;

  std::unique_ptr<Supply> operator()(const OfficialSource&) const {
    if (info.address.empty()) {
      throw ConfigError(
          fmt::format("data set {}: no publisher's address is known for certain; say where it is with: {}",
                      info.name, fetch_command(info)));
    }
    return (*this)(UrlSource{info.address});
  }
  std::unique_ptr<Supply> operator()(const UrlSource& source) const {
    if (!is_archive_name(source.address)) return std::make_unique<WebSupply>(source.address, options);
    return std::make_unique<WebArchiveSupply>(source.address, bytes_of(info) + kSlack, options);
  }
  std::unique_ptr<Supply> operator()(const FileSource& source) const { return open_path(info, source.path); }
  std::unique_ptr<Supply> operator()(const NpmSource& source) const {
    const ScratchFolder scratch;
    const auto path = npm_pack(source.package, scratch.path(), options.npm_program);
    auto archive = unpack_if_archive(map_file(path).bytes(), path.string(), bytes_of(info) + kSlack);
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

std::unique_ptr<Supply> open_source(const data::DatasetInfo& info, const Source& source,
                                    const SourceOptions& options) {
  return std::visit(Opener{info, options}, source);
}

}  // namespace tutti::fetch
