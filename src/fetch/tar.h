// Tar archives (ustar, as tar and npm write them), read in place. Nothing is ever extracted: a member is a
// view that the caller finds by its base name, so no path in an archive can lead anywhere.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::fetch {

struct TarMember {
  std::string base_name;  // what follows the last '/', at most 100 characters
  std::span<const std::byte> content;
};

// True if the bytes begin with the header of a tar member.
bool is_tar(std::span<const std::byte> bytes);

// The regular files among the members; they live as long as `archive`. Throws DataError with `name` and
// offset if the archive is damaged or cut short.
std::vector<TarMember> list_tar(std::span<const std::byte> archive, const std::string& name);

// The first member of this base name, or nullptr.
const TarMember* find_member(std::span<const TarMember> members, std::string_view base_name);

}  // namespace tutti::fetch
