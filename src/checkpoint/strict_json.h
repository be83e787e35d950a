// JSON from a file that nobody vouches for.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tutti::checkpoint {

// Throws DataError.
[[noreturn]] void reject(const std::string& where, const std::string& reason);

// Parses all of `text`. Throws DataError that begins with `where` if it is no JSON (naming the byte, counted
// from `offset`), has a key twice in one object, or is nested deeper than 64.
nlohmann::json parse_strict(std::string_view text, const std::string& where, std::size_t offset = 0);

}  // namespace tutti::checkpoint
