// Images as PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tutti::data {

// A grey image, row by row from the top, 0 is black.
std::string encode_png(std::span<const std::uint8_t> pixels, std::uint32_t width, std::uint32_t height);

}  // namespace tutti::data
