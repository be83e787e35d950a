// An image from the bytes of a JPEG or PNG file, by libjpeg-turbo and libpng.
//
// Whatever the file holds becomes grey or RGB with 8 bits a channel: 16 bits are rounded, palettes looked up,
// CMYK converted, and what is transparent lies on white. An orientation that a camera noted (EXIF) is not
// looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/image_set.h"

namespace tutti::data {

struct DecodedImage {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;  // channel by channel, and each row by row
};

// More than this is refused before memory is taken for it.
inline constexpr std::size_t kMostPixels = 100'000'000;

// Both tell JPEG from PNG by content, and throw DataError that begins with `path`, which is not opened.
// Damage that libjpeg only warns of, such as a file that ends too early, is an error.

// As the file has it: one channel if it is grey, else three. Reads its header alone.
ImageShape image_shape(std::span<const std::byte> file, const std::string& path,
                       std::size_t most_pixels = kMostPixels);

// In 1 or 3 channels. Reads the file to its end.
DecodedImage decode_image(std::span<const std::byte> file, const std::string& path, std::size_t channels,
                          std::size_t most_pixels = kMostPixels);

}  // namespace tutti::data
