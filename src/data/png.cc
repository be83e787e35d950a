#include "data/png.h"

#include <boost/beast/zlib/deflate_stream.hpp>
#include <boost/crc.hpp>

#include "base/error.h"

namespace tutti::data {
namespace {

namespace zlib = boost::beast::zlib;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string chunk(const std::string& kind, const std::string& content) {
  const std::string covered = kind + content;
  boost::crc_32_type crc;
  crc.process_bytes(covered.data(), covered.size());
  return big_endian(static_cast<std::uint32_t>(content.size())) + covered + big_endian(crc.checksum());
}

std::uint32_t adler32(std::string_view bytes) {
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (const char c : bytes) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

// With the header and the trailer of the zlib format.
std::string compress(const std::string& bytes) {
  zlib::deflate_stream deflate;
  std::string packed(deflate.upper_bound(bytes.size()), '\0');
  zlib::z_params z{};
  z.next_in = bytes.data();
  z.avail_in = bytes.size();
  z.next_out = packed.data();
  z.avail_out = packed.size();
  boost::beast::error_code error;
  deflate.write(z, zlib::Flush::finish, error);
  TUTTI_CHECK(error == zlib::error::end_of_stream, "{}", error.message());
  packed.resize(z.total_out);
  return "\x78\x9c" + packed + big_endian(adler32(bytes));
}

}  // namespace

std::string encode_png(std::span<const std::uint8_t> pixels, std::uint32_t width, std::uint32_t height) {
  TUTTI_CHECK(pixels.size() == std::size_t{width} * height && !pixels.empty());
  std::string rows;
  for (std::uint32_t y = 0; y < height; ++y) {
    const auto row = pixels.subspan(std::size_t{y} * width, width);
    rows += '\0';  // no filter
    rows.append(row.begin(), row.end());
  }
  const std::string eight_bits_of_grey("\x08\0\0\0\0", 5);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", big_endian(width) + big_endian(height) + eight_bits_of_grey) +
         chunk("IDAT", compress(rows)) + chunk("IEND", "");
}

}  // namespace tutti::data
