// Bytes of pixels to the floats a network takes, and labels to the integers a loss takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "data/image_set.h"

namespace tutti::data {

// What each of the 256 values of a pixel becomes.
using PixelTable = std::array<float, 256>;

// (x / 255 - mean) / deviation.
PixelTable normalising_table(float mean, float deviation);

// Decodes the images at `indices`, one after another, into `pixels`, and their labels into `labels`; both
// must have room. Reads the set only, so threads may decode from one set at the same time.
void decode(const ImageSet& set, std::span<const std::uint32_t> indices, const PixelTable& table,
            std::span<float> pixels, std::span<std::int64_t> labels);

}  // namespace tutti::data
