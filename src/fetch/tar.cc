#include "fetch/tar.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/error.h"

namespace tutti::fetch {
namespace {

constexpr std::size_t kBlock = 512;

struct HeaderField {
  std::size_t offset;
  std::size_t size;
};
constexpr HeaderField kName{0, 100};
constexpr HeaderField kSize{124, 12};
constexpr HeaderField kChecksum{148, 8};
constexpr std::size_t kType = 156;

using Block = std::span<const std::byte>;

std::string text_in(Block block, HeaderField field) {
  std::string text(reinterpret_cast<const char*>(block.data()) + field.offset, field.size);
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

// Octal digits between spaces; nothing else.
std::optional<std::uint64_t> number_in(Block block, HeaderField field) {
  std::string text = text_in(block, field);
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  text.resize(text.find_last_not_of(' ') + 1);
  if (text.empty() || text.find_first_not_of("01234567") != std::string::npos) return std::nullopt;
  std::uint64_t value = 0;
  for (const char digit : text) value = value * 8 + static_cast<std::uint64_t>(digit - '0');
  return value;
}

bool is_zero(Block block) {
  return std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; });
}

bool has_right_checksum(Block block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool in_checksum = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    sum += in_checksum ? ' ' : std::to_integer<unsigned>(block[i]);
  }
  return number_in(block, kChecksum) == sum;
}

}  // namespace

bool is_tar(std::span<const std::byte> bytes) {
  return bytes.size() >= kBlock && has_right_checksum(bytes.first(kBlock));
}

std::vector<TarMember> list_tar(std::span<const std::byte> archive, const std::string& name) {
  std::vector<TarMember> members;
  std::size_t at = 0;
  const auto fail = [&](const std::string& what) {
    throw DataError(fmt::format("{}: offset {} of the archive: {}", name, at, what));
  };
  while (at < archive.size()) {
    if (archive.size() - at < kBlock) fail("the archive ends inside a header");
    const Block header = archive.subspan(at, kBlock);
    if (is_zero(header)) break;
    if (!has_right_checksum(header)) fail("not a tar header: its checksum is wrong");
    const auto size = number_in(header, kSize);
    if (!size) fail("the size of a member is no octal number");
    at += kBlock;
    if (*size > archive.size() - at) fail(fmt::format("the archive ends inside a member of {} bytes", *size));
    const auto type = static_cast<char>(header[kType]);
    if (type == '0' || type == '\0') {
      const std::string path = text_in(header, kName);
      members.push_back({path.substr(path.rfind('/') + 1), archive.subspan(at, *size)});
    }
    at += std::min<std::size_t>((*size + kBlock - 1) / kBlock * kBlock, archive.size() - at);
  }
  return members;
}

const TarMember* find_member(std::span<const TarMember> members, std::string_view base_name) {
  const auto found = std::ranges::find(members, base_name, &TarMember::base_name);
  return found == members.end() ? nullptr : &*found;
}

}  // namespace tutti::fetch
