// Sizes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// "1K", "64M", "2G" (powers of 1024) or a plain number. Throws ConfigError.
std::uint64_t parse_bytes(std::string_view text);

// "1K,64K,4M" -> sizes. Throws ConfigError on an empty list or entry.
std::vector<std::uint64_t> parse_bytes_list(std::string_view text);

// "1.0 KiB", "26.3 MiB".
std::string human_bytes(std::uint64_t bytes);

}  // namespace tutti
