#include "data/idx.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/gzip.h"

namespace tutti::data {
namespace {

constexpr std::size_t kShortHeader = 8;   // labels
constexpr std::size_t kLongHeader = 16;   // images
constexpr std::uint32_t kMaxSide = 4096;  // pixels; keeps every product below 2^64

using Header = std::array<std::byte, kLongHeader>;

struct Shape {
  IdxKind kind{};
  std::size_t header_bytes = 0;
  std::uint32_t count = 0;
  std::uint32_t rows = 1;
  std::uint32_t cols = 1;

  std::uint64_t file_bytes() const { return header_bytes + std::uint64_t{count} * rows * cols; }
};

std::uint32_t u32_at(const Header& header, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(header[offset + i]);
  return value;
}

[[noreturn]] void fail(const std::string& name, std::uint64_t offset, const std::string& what) {
  throw DataError(fmt::format("{}: offset {}: {}", name, offset, what));
}

std::uint32_t side_at(const Header& header, std::size_t offset, const char* unit, const std::string& name) {
  const std::uint32_t side = u32_at(header, offset);
  if (side == 0 || side > kMaxSide) {
    fail(name, offset, fmt::format("{} {} an image, expected 1 to {}", side, unit, kMaxSide));
  }
  return side;
}

// `present` bytes of the header were there to read.
Shape parse(const Header& header, std::size_t present, const std::string& name) {
  if (present < 4)
    fail(name, present, fmt::format("the file ends in its header, expected {} bytes", kShortHeader));
  const std::uint32_t magic = u32_at(header, 0);
  Shape shape;
  shape.kind = static_cast<IdxKind>(magic);
  if (shape.kind != IdxKind::images && shape.kind != IdxKind::labels) {
    fail(name, 0, fmt::format("magic {:#010x}, expected 0x00000803 (images) or 0x00000801 (labels)", magic));
  }
  shape.header_bytes = shape.kind == IdxKind::images ? kLongHeader : kShortHeader;
  if (present < shape.header_bytes) {
    fail(name, present, fmt::format("the file ends in its header, expected {} bytes", shape.header_bytes));
  }
  shape.count = u32_at(header, 4);
  if (shape.count == 0) fail(name, 4, "0 items, expected at least 1");
  if (shape.kind == IdxKind::images) {
    shape.rows = side_at(header, 8, "rows", name);
    shape.cols = side_at(header, 12, "columns", name);
  }
  return shape;
}

void check_length(const Shape& shape, std::uint64_t found, const std::string& name) {
  if (found == shape.file_bytes()) return;
  fail(name, std::min(found, shape.file_bytes()),
       fmt::format("the file has {} bytes, expected {} for {} items of {}x{}", found, shape.file_bytes(),
                   shape.count, shape.rows, shape.cols));
}

bool needs_decoding(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  return path.extension() == ".gz" || is_gzip(bytes);
}

UniqueFd decode(std::span<const std::byte> packed, const std::string& file, std::size_t limit) {
  const std::string name = file + " (decoded)";
  GzipReader reader(packed, file);
  Header header{};
  std::size_t present = reader.read(std::span(header).first(kShortHeader));
  const bool long_header =
      present == kShortHeader && static_cast<IdxKind>(u32_at(header, 0)) == IdxKind::images;
  if (long_header) present += reader.read(std::span(header).subspan(kShortHeader));
  const Shape shape = parse(header, present, name);

  const std::uint64_t bytes = shape.file_bytes();
  if (bytes > limit)
    fail(name, 4, fmt::format("the header promises {} bytes, the limit is {}", bytes, limit));
  if (bytes / kGzipMaxExpansion > packed.size()) {
    fail(name, 4,
         fmt::format("the header promises {} bytes, which {} compressed cannot hold", bytes, packed.size()));
  }
  UniqueFd memory = make_memory_file("tutti-idx", bytes);
  const Mapping mapping(memory.get(), bytes, Mapping::Access::write_shared);
  std::copy_n(header.begin(), present, mapping.bytes().begin());
  const std::size_t made = present + reader.read(mapping.bytes().subspan(present));
  check_length(shape, made, name);
  std::byte more{};
  if (reader.read({&more, 1}) != 0) {  // also brings the check of the checksum
    fail(name, bytes, fmt::format("more than the expected {} bytes", bytes));
  }
  return memory;
}

}  // namespace

IdxFile IdxFile::open(const std::filesystem::path& path, IdxKind kind, std::size_t limit) {
  std::string name = path.string();
  IdxFile file;
  file.mapping_ = map_file(path);
  if (needs_decoding(path, file.mapping_.bytes())) {
    const UniqueFd memory = decode(file.mapping_.bytes(), name, limit);
    file.mapping_ = map_file(fmt::format("/proc/self/fd/{}", memory.get()));
    name += " (decoded)";
  }
  const auto bytes = std::span<const std::byte>(file.mapping_.bytes());
  Header header{};
  const std::size_t present = std::min(bytes.size(), header.size());
  std::copy_n(bytes.begin(), present, header.begin());
  const Shape shape = parse(header, present, name);
  if (shape.kind != kind) {
    fail(name, 0,
         fmt::format("magic {:#010x}, expected {:#010x} ({})", u32_at(header, 0),
                     static_cast<std::uint32_t>(kind), kind == IdxKind::images ? "images" : "labels"));
  }
  check_length(shape, bytes.size(), name);
  file.count_ = shape.count;
  file.rows_ = shape.rows;
  file.cols_ = shape.cols;
  file.header_bytes_ = shape.header_bytes;
  const auto items = bytes.subspan(shape.header_bytes);
  file.items_ = {reinterpret_cast<const std::uint8_t*>(items.data()), items.size()};
  return file;
}

PlainFile prepare_idx(const std::filesystem::path& path, std::size_t limit) {
  const Mapping mapping = map_file(path);
  if (!needs_decoding(path, mapping.bytes())) return {path.string(), {}};
  return share_with_children(decode(mapping.bytes(), path.string(), limit));
}

}  // namespace tutti::data
