// IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped.
//
//   offset 0   magic, big-endian: 0x00000803 images, 0x00000801 labels (unsigned bytes, 3 or 1 dimensions)
//   offset 4   count, then for images rows and columns, each 32 bits big-endian
//   then       count x rows x columns bytes
//
// A plain file is mapped; a gzipped one is decoded into an anonymous file in memory, which is mapped. Every
// error is a DataError in one line: file, offset, what was found and what was expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/file.h"
#include "data/plain_file.h"

namespace tutti::data {

enum class IdxKind : std::uint32_t { labels = 0x801, images = 0x803 };

// The most bytes a gzipped IDX file may decode to unless the caller says otherwise.
inline constexpr std::size_t kIdxLimit = std::size_t{4} << 30;

// An open IDX file. Read-only, so any number of threads may share one.
class IdxFile {
 public:
  // Checks magic, dimensions and length. A gzipped file whose header promises more than `limit` bytes, or
  // more than its compressed size can hold, is refused before memory is taken for it.
  static IdxFile open(const std::filesystem::path& path, IdxKind kind, std::size_t limit = kIdxLimit);

  std::size_t count() const { return count_; }
  std::size_t rows() const { return rows_; }  // 1 for labels
  std::size_t cols() const { return cols_; }  // 1 for labels
  std::size_t header_bytes() const { return header_bytes_; }

  // All items, one after another, without the header.
  std::span<const std::uint8_t> items() const { return items_; }

 private:
  IdxFile() = default;

  Mapping mapping_;
  std::span<const std::uint8_t> items_;
  std::size_t count_ = 0;
  std::size_t rows_ = 1;
  std::size_t cols_ = 1;
  std::size_t header_bytes_ = 0;
};

// For launchers: a host decodes a gzipped file once and every process maps the same memory. A plain file
// stands for itself. Throws DataError.
PlainFile prepare_idx(const std::filesystem::path& path, std::size_t limit = kIdxLimit);

}  // namespace tutti::data
