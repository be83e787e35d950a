#include "train/as_tensors.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tutti::train {
namespace {

// Whatever the order in memory that libtorch is told, a pixel is where it was.
TEST(AsTensors, PixelsStandWhereTheBytesHaveThem) {
  for (const std::int64_t channels : {1, 3}) {
    const std::vector<Field> described = {{.name = "image", .type = DType::f32, .shape = {channels, 2, 5}}};
    std::vector<float> pixels(static_cast<std::size_t>(4 * channels * 2 * 5));
    std::iota(pixels.begin(), pixels.end(), 0.0F);
    const std::vector<std::span<const std::byte>> fields = {std::as_bytes(std::span(pixels))};
    const auto expected = torch::arange(4 * channels * 2 * 5, torch::kFloat32).view({4, channels, 2, 5});
    for (const bool channels_last : {false, true}) {
      const auto images = as_tensors(fields, described, 4, channels_last).at(0);
      EXPECT_TRUE(torch::equal(images, expected)) << channels << channels_last;
      EXPECT_EQ(images.stride(1), channels_last ? 1 : 10) << channels;
    }
  }
}

}  // namespace
}  // namespace tutti::train
