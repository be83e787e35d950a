#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace tutti {
namespace {

// Followed by six characters of mkostemp's choice. A plain ".XXXXXX" would not do: who sweeps such names away
// would sweep "summary.json.backup", too.
constexpr std::string_view kUnfinished = ".partial-";

UniqueFd open_for_reading(const std::filesystem::path& path, struct stat& info) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe shall not hold us
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    throw DataError(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode))
    throw DataError(fmt::format("cannot read {}: not a regular file", path.string()));
  return fd;
}

}  // namespace

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Mapping::Mapping(int fd, std::size_t bytes, Access access) {
  if (bytes == 0) return;
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* p = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) throw_errno(fmt::format("cannot map {} bytes", bytes));
  bytes_ = {static_cast<std::byte*>(p), bytes};
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Mapping map_file(const std::filesystem::path& path) {
  struct stat info {};
  const UniqueFd fd = open_for_reading(path, info);
  return {fd.get(), static_cast<std::size_t>(info.st_size), Mapping::Access::read};
}

std::string read_file(const std::filesystem::path& path) {
  const Mapping mapping = map_file(path);
  const auto bytes = mapping.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string read_start(int fd, std::size_t most, const std::string& what) {
  std::string text(most, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  if (n < 0) throw_errno(what);
  text.resize(static_cast<std::size_t>(n));
  return text;
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(what);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void sync_folder(const std::filesystem::path& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) throw_errno(fmt::format("cannot sync folder {}", folder.string()));
}

void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::span<const std::byte>> pieces) {
  const auto what = fmt::format("cannot write {}", path.string());
  std::string temporary = fmt::format("{}{}XXXXXX", path.string(), kUnfinished);
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) throw_errno(what);
  try {
    for (const auto piece : pieces) write_all(fd.get(), piece, what);
    if (::fchmod(fd.get(), 0644) != 0 || ::fsync(fd.get()) != 0) throw_errno(what);
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw_errno(what);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content) {
  write_file_atomically(path, std::span(&content, 1));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  write_file_atomically(path, std::as_bytes(std::span(content)));
}

bool is_unfinished_write(std::string_view name, std::string_view file) {
  if (!name.starts_with(file)) return false;
  name.remove_prefix(file.size());
  return name.starts_with(kUnfinished) && name.size() == kUnfinished.size() + 6;
}

void remove_tree(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (fs::is_directory(fs::symlink_status(path))) {
    std::vector<fs::path> children;
    for (const auto& entry : fs::directory_iterator(path)) children.push_back(entry.path());
    for (const auto& child : children) remove_tree(child);
  }
  fs::remove(path);
}

void remove_tree(const std::filesystem::path& path, std::error_code& error) {
  try {
    error.clear();
    remove_tree(path);
  } catch (const std::filesystem::filesystem_error& e) {
    error = e.code();
  }
}

UniqueFd make_memory_file(const char* label, std::size_t bytes) {
  UniqueFd fd(::memfd_create(label, MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    throw_errno(fmt::format("cannot make a memory file of {} bytes", bytes));
  }
  return fd;
}

}  // namespace tutti
