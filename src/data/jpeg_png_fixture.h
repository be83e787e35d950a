// For tests: JPEG and PNG files of every kind, by the libraries that read them.
#pragma once

#include <png.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

// After <cstdio>, which it needs and does not include.
#include <jpeglib.h>

namespace tutti::data::fixture {

// `samples` a pixel: 1 is grey, 3 RGB, 4 CMYK. Pixel after pixel.
inline std::string encode_jpeg(std::span<const std::uint8_t> pixels, unsigned width, unsigned height,
                               int samples, bool progressive = false) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = width;
  info.image_height = height;
  info.input_components = samples;
  info.in_color_space = samples == 1 ? JCS_GRAYSCALE : samples == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (unsigned y = 0; y < height; ++y) {
    auto* row = const_cast<JSAMPROW>(pixels.data() + std::size_t{y} * width * static_cast<unsigned>(samples));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(memory), bytes);
  std::free(memory);  // libjpeg has taken it by malloc
  return file;
}

struct PngKind {
  int type = PNG_COLOR_TYPE_GRAY;
  int depth = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
  std::vector<png_byte> palette_alpha = {};
};

// Rows as the file has them: pixels of less than 8 bits packed, those of 16 big-endian.
inline std::string encode_png_of(const PngKind& kind, std::vector<std::uint8_t> rows, unsigned width,
                                 unsigned height) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp p, png_bytep bytes, std::size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(bytes), n);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, width, height, kind.depth, kind.type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty()) {
    png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  }
  if (!kind.palette_alpha.empty()) {
    png_set_tRNS(png, info, kind.palette_alpha.data(), static_cast<int>(kind.palette_alpha.size()), nullptr);
  }
  png_write_info(png, info);
  std::vector<png_bytep> at;
  for (unsigned y = 0; y < height; ++y) at.push_back(rows.data() + y * (rows.size() / height));
  png_write_image(png, at.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace tutti::data::fixture
