// Files and descriptors: owned, mapped, and written so that a reader sees the old content or the new, never
// half.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tutti {

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset();
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A mapping of a whole file or a part of one; unmapped when destroyed.
class Mapping {
 public:
  enum class Access { read, write_shared };

  Mapping() = default;
  // Maps `bytes` of fd from offset 0. Zero bytes give an empty mapping. Throws RunError.
  Mapping(int fd, std::size_t bytes, Access access);
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

// Maps a file read-only. Throws DataError that names the path.
Mapping map_file(const std::filesystem::path& path);

// The whole file as text. Throws DataError that names the path.
std::string read_file(const std::filesystem::path& path);

// At most so many bytes of an open file, from its start. Throws RunError that begins with `what`.
std::string read_start(int fd, std::size_t most, const std::string& what);

// Writes beside `path`, fsyncs, renames over it and fsyncs the folder. On failure nothing is left and
// RunError names the path.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> content);
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
// The same for content that lies in several pieces, one after the other in the file.
void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::span<const std::byte>> pieces);

// Whether a file of this name is what write_file_atomically leaves of `file` where the process is killed.
bool is_unfinished_write(std::string_view name, std::string_view file);

// Makes the names in a folder (files made, renamed or removed there) last through a crash. Throws RunError.
void sync_folder(const std::filesystem::path& folder);

// Removes a file, or a folder with all in it; what is not there is fine. Not std::filesystem::remove_all,
// which crashes beside recent builds of libtorch (docs/decisions/0005). Throws
// std::filesystem::filesystem_error.
void remove_tree(const std::filesystem::path& path);
void remove_tree(const std::filesystem::path& path, std::error_code& error);

// An anonymous file in memory; it has no name, so nothing can be left behind. Throws RunError.
UniqueFd make_memory_file(const char* label, std::size_t bytes);

// Writes all of it or throws RunError.
void write_all(int fd, std::span<const std::byte> bytes, const std::string& what);

}  // namespace tutti
