#include "data/jpeg_png.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/idx_fixture.h"
#include "data/jpeg_png_fixture.h"
#include "data/png.h"

namespace tutti::data {
namespace {

using namespace fixture;
using Pixels = std::vector<std::uint8_t>;

DecodedImage decode(const std::string& file, std::size_t channels) {
  return decode_image(as_bytes(file), "a/b.jpg", channels);
}
std::string error(const std::string& file, std::size_t channels = 3) {
  return error_of<DataError>([&] { decode(file, channels); });
}

// Slopes, which a JPEG keeps nearly as they are.
Pixels slopes(unsigned width, unsigned height, unsigned samples) {
  Pixels pixels;
  for (unsigned y = 0; y < height; ++y) {
    for (unsigned x = 0; x < width; ++x) {
      for (unsigned s = 0; s < samples; ++s) {
        pixels.push_back(static_cast<std::uint8_t>(s == 1 ? 220 - 3 * y : 20 + 4 * x + 10 * s));
      }
    }
  }
  return pixels;
}

// Pixel after pixel as channel by channel.
Pixels as_planes(const Pixels& pixels, std::size_t samples) {
  Pixels planes;
  for (std::size_t s = 0; s < samples; ++s) {
    for (std::size_t p = s; p < pixels.size(); p += samples) planes.push_back(pixels[p]);
  }
  return planes;
}

void expect_near(const Pixels& pixels, const Pixels& expected, int tolerance) {
  ASSERT_EQ(pixels.size(), expected.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) ASSERT_NEAR(pixels[i], expected[i], tolerance) << i;
}

TEST(Png, GreyComesBackExactlyAndInThreeEqualChannels) {
  const Pixels pixels = slopes(31, 17, 1);
  const std::string file = encode_png(pixels, 31, 17);
  EXPECT_EQ(image_shape(as_bytes(file), "x"), (ImageShape{1, 17, 31}));
  EXPECT_EQ(decode(file, 1).pixels, pixels);
  const auto three = decode(file, 3);
  EXPECT_EQ(three.shape, (ImageShape{3, 17, 31}));
  Pixels expected;
  for (int c = 0; c < 3; ++c) expected.insert(expected.end(), pixels.begin(), pixels.end());
  EXPECT_EQ(three.pixels, expected);
}

TEST(Png, ColoursComeBackExactlyInterlacedOrNot) {
  const Pixels pixels = slopes(13, 9, 3);
  for (const bool interlaced : {false, true}) {
    const auto file = encode_png_of({.type = PNG_COLOR_TYPE_RGB, .interlaced = interlaced}, pixels, 13, 9);
    EXPECT_EQ(image_shape(as_bytes(file), "x"), (ImageShape{3, 9, 13}));
    EXPECT_EQ(decode(file, 3).pixels, as_planes(pixels, 3)) << interlaced;
  }
}

TEST(Png, ColoursBecomeGreyAsTheEyeSeesThem) {
  const auto file =
      encode_png_of({.type = PNG_COLOR_TYPE_RGB}, {255, 0, 0, 0, 255, 0, 0, 0, 255, 90, 90, 90}, 4, 1);
  EXPECT_EQ(decode(file, 1).pixels, (Pixels{76, 150, 29, 90}));
}

TEST(Png, WhatIsTransparentLiesOnWhite) {
  const auto rgba = encode_png_of({.type = PNG_COLOR_TYPE_RGB_ALPHA},
                                  {10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 200, 51}, 3, 1);
  EXPECT_EQ(decode(rgba, 3).pixels, (Pixels{10, 255, 204, 20, 255, 224, 30, 255, 244}));
  const auto grey = encode_png_of({.type = PNG_COLOR_TYPE_GRAY_ALPHA}, {0, 255, 0, 0, 0, 51}, 3, 1);
  EXPECT_EQ(image_shape(as_bytes(grey), "x").channels, 1u);
  EXPECT_EQ(decode(grey, 1).pixels, (Pixels{0, 255, 204}));
}

TEST(Png, SixteenBitsAreRounded) {
  const auto file = encode_png_of({.depth = 16}, {0x00, 0x00, 0x7f, 0xff, 0x12, 0xff, 0xff, 0xff}, 4, 1);
  EXPECT_EQ(decode(file, 1).pixels, (Pixels{0, 127, 19, 255}));
}

TEST(Png, BitsAndPalettesAreLookedUp) {
  EXPECT_EQ(decode(encode_png_of({.depth = 1}, {0b10100000}, 4, 1), 1).pixels, (Pixels{255, 0, 255, 0}));
  const PngKind palette{.type = PNG_COLOR_TYPE_PALETTE,
                        .palette = {{1, 2, 3}, {40, 50, 60}, {7, 8, 9}},
                        .palette_alpha = {255, 255, 0}};
  const auto file = encode_png_of(palette, {1, 0, 2}, 3, 1);
  EXPECT_EQ(image_shape(as_bytes(file), "x").channels, 3u);
  EXPECT_EQ(decode(file, 3).pixels, (Pixels{40, 1, 255, 50, 2, 255, 60, 3, 255}));
}

TEST(Jpeg, GreyAndColoursComeBackNearly) {
  for (const bool progressive : {false, true}) {
    const Pixels grey = slopes(33, 21, 1);
    const auto grey_file = encode_jpeg(grey, 33, 21, 1, progressive);
    EXPECT_EQ(image_shape(as_bytes(grey_file), "x"), (ImageShape{1, 21, 33}));
    expect_near(decode(grey_file, 1).pixels, grey, 3);
    const Pixels colours = slopes(33, 21, 3);
    const auto file = encode_jpeg(colours, 33, 21, 3, progressive);
    EXPECT_EQ(image_shape(as_bytes(file), "x"), (ImageShape{3, 21, 33}));
    expect_near(decode(file, 3).pixels, as_planes(colours, 3), 8);
  }
}

TEST(Jpeg, ColoursBecomeTheSameGreyAsAPngsDo) {
  const Pixels colours = slopes(16, 16, 3);
  const auto png = encode_png_of({.type = PNG_COLOR_TYPE_RGB}, colours, 16, 16);
  expect_near(decode(encode_jpeg(colours, 16, 16, 3), 1).pixels, decode(png, 1).pixels, 4);
}

// libjpeg writes Adobe's marker, so 255 is no ink.
TEST(Jpeg, InksBecomeColours) {
  Pixels inks;
  for (int p = 0; p < 64; ++p) inks.insert(inks.end(), {255, 128, 0, 200});
  const auto file = encode_jpeg(inks, 8, 8, 4);
  const auto image = decode(file, 3);
  EXPECT_EQ(image_shape(as_bytes(file), "x").channels, 3u);
  for (std::size_t p = 0; p < 64; ++p) {
    EXPECT_NEAR(image.pixels[p], 200, 4);
    EXPECT_NEAR(image.pixels[64 + p], 100, 4);
    EXPECT_NEAR(image.pixels[128 + p], 0, 4);
  }
}

TEST(Damage, AFileThatEndsTooEarlyIsRefusedWhereverThatIs) {
  const Pixels pixels = slopes(40, 40, 3);
  for (const auto& file : {encode_jpeg(pixels, 40, 40, 3), encode_jpeg(pixels, 40, 40, 3, true),
                           encode_png_of({.type = PNG_COLOR_TYPE_RGB}, pixels, 40, 40),
                           encode_png_of({.type = PNG_COLOR_TYPE_RGB, .interlaced = true}, pixels, 40, 40)}) {
    ASSERT_EQ(error(file), "");
    for (std::size_t length = 0; length < file.size(); ++length) {
      const auto said = error(file.substr(0, length), length % 2 == 0 ? 1 : 3);
      ASSERT_TRUE(said.starts_with("a/b.jpg: ")) << length << " of " << file.size() << ": " << said;
    }
  }
}

TEST(Damage, IsNamedWithItsPlace) {
  const auto jpeg = encode_jpeg(slopes(64, 64, 1), 64, 64, 1);
  const auto short_jpeg = error(jpeg.substr(0, jpeg.size() - 2));
  EXPECT_TRUE(short_jpeg.starts_with("a/b.jpg: row ")) << short_jpeg;
  EXPECT_TRUE(short_jpeg.ends_with(" of 64: Premature end of JPEG file")) << short_jpeg;
  const auto png = encode_png(slopes(64, 64, 1), 64, 64);
  EXPECT_EQ(error(png.substr(0, 20)), "a/b.jpg: header: the file ends too early");
  EXPECT_NE(error(png.substr(0, png.size() - 30)).find(" of 64: the file ends too early"), std::string::npos);
  EXPECT_EQ(error(png.substr(0, png.size() - 4)), "a/b.jpg: behind its last row: the file ends too early");
  EXPECT_EQ(error(""), "a/b.jpg: the file is empty");
  EXPECT_EQ(error("GIF89a"), "a/b.jpg: this is neither a JPEG nor a PNG file");
}

TEST(Damage, ABitThatIsFlippedNeverEndsTheProgram) {
  const Pixels pixels = slopes(24, 24, 3);
  for (const auto& file :
       {encode_jpeg(pixels, 24, 24, 3, true), encode_png_of({.type = PNG_COLOR_TYPE_RGB}, pixels, 24, 24)}) {
    for (std::size_t at = 0; at < file.size(); ++at) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
      error(damaged);
    }
  }
}

// Headers that promise more than anybody has memory for.
TEST(Damage, AbsurdSizesAreRefusedBeforeMemoryIsTaken) {
  auto png = encode_png(Pixels(4), 2, 2);
  const std::string size = big_endian(1'000'000) + big_endian(1'000'000);
  const std::string header = "IHDR" + size + png.substr(24, 5);
  boost::crc_32_type crc;
  crc.process_bytes(header.data(), header.size());
  png.replace(12, 21, header + big_endian(crc.checksum()));
  EXPECT_EQ(error(png), "a/b.jpg: header: an image of 1000000 x 1000000 pixels; at most 100000000 are taken");
  auto jpeg = encode_jpeg(Pixels(64), 8, 8, 1);
  const auto frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");
  EXPECT_EQ(error(jpeg), "a/b.jpg: header: an image of 65500 x 65500 pixels; at most 100000000 are taken");
  EXPECT_NE(error_of<DataError>([&] {
              decode_image(as_bytes(encode_png(Pixels(4), 2, 2)), "x", 1, 3);
            }).find("at most 3 are taken"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::data
