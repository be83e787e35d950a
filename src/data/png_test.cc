#include "data/png.h"

#include <gtest/gtest.h>

#include <boost/beast/zlib/inflate_stream.hpp>
#include <map>
#include <vector>

#include "base/random.h"

namespace tutti::data {
namespace {

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

// Bit by bit, as the PNG specification defines it.
std::uint32_t plain_crc(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

std::map<std::string, std::string> chunks_of(const std::string& png) {
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::map<std::string, std::string> chunks;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t length = number_at(png, at);
    const auto covered = png.substr(at + 4, 4 + length);
    EXPECT_EQ(number_at(png, at + 8 + length), plain_crc(covered));
    chunks[covered.substr(0, 4)] = covered.substr(4);
    at += 12 + length;
  }
  return chunks;
}

std::string inflate(std::string_view packed, std::size_t most) {
  namespace zlib = boost::beast::zlib;
  std::string out(most, '\0');
  zlib::inflate_stream stream;
  zlib::z_params z{};
  z.next_in = packed.data();
  z.avail_in = packed.size();
  z.next_out = out.data();
  z.avail_out = out.size();
  boost::beast::error_code error;
  stream.write(z, zlib::Flush::finish, error);
  EXPECT_EQ(error, zlib::error::end_of_stream) << error.message();
  out.resize(z.total_out);
  return out;
}

TEST(Png, DecodesToThePixelsThatWereEncoded) {
  struct Size {
    std::uint32_t width, height;
  };
  for (const auto& [width, height] : {Size{1, 1}, Size{3, 2}, Size{242, 242}}) {
    SplitMix64 random(width);
    std::vector<std::uint8_t> pixels(std::size_t{width} * height);
    for (auto& p : pixels) p = static_cast<std::uint8_t>(random.below(3) == 0 ? random.below(256) : 0);
    auto chunks = chunks_of(encode_png(pixels, width, height));
    ASSERT_EQ(chunks.size(), 3U);
    const auto& header = chunks["IHDR"];
    ASSERT_EQ(header.size(), 13U);
    EXPECT_EQ(number_at(header, 0), width);
    EXPECT_EQ(number_at(header, 4), height);
    EXPECT_EQ(header.substr(8), std::string("\x08\0\0\0\0", 5));
    const auto& data = chunks["IDAT"];
    EXPECT_EQ((static_cast<unsigned char>(data[0]) << 8 | static_cast<unsigned char>(data[1])) % 31, 0);
    const auto rows = inflate(std::string_view(data).substr(2, data.size() - 6), 2 * pixels.size() + 9);
    ASSERT_EQ(rows.size(), std::size_t{width + 1} * height);
    for (std::size_t y = 0; y < height; ++y) {
      EXPECT_EQ(rows[y * (width + 1)], 0);
      for (std::size_t x = 0; x < width; ++x) {
        ASSERT_EQ(static_cast<std::uint8_t>(rows[y * (width + 1) + 1 + x]), pixels[y * width + x]);
      }
    }
    std::uint64_t a = 1;
    std::uint64_t b = 0;
    for (const char c : rows) b += a += static_cast<unsigned char>(c);
    EXPECT_EQ(number_at(data, data.size() - 4), (b % 65521) << 16 | a % 65521);
  }
}

}  // namespace
}  // namespace tutti::data
