// For tests: small IDX files, and a gzip encoder to wrap them.
#pragma once

#include <algorithm>
#include <boost/beast/zlib/deflate_stream.hpp>
#include <boost/crc.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace tutti::data::fixture {

inline std::string big_endian(std::uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}

inline std::string little_endian(std::uint32_t v) {
  std::string text = big_endian(v);
  std::ranges::reverse(text);
  return text;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Pixel p of image i is (i * 7 + p) % 256.
inline std::string images_idx(std::uint32_t count, std::uint32_t rows = 3, std::uint32_t cols = 2) {
  std::string file = big_endian(0x803) + big_endian(count) + big_endian(rows) + big_endian(cols);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t p = 0; p < rows * cols; ++p) file += static_cast<char>(i * 7 + p);
  }
  return file;
}

// Label i is i % classes.
inline std::string labels_idx(std::uint32_t count, std::uint32_t classes = 10) {
  std::string file = big_endian(0x801) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) file += static_cast<char>(i % classes);
  return file;
}

inline std::string deflated(std::string_view content) {
  namespace zlib = boost::beast::zlib;
  zlib::deflate_stream stream;
  std::string out(stream.upper_bound(content.size()) + 64, '\0');
  zlib::z_params z{};
  z.next_in = content.data();
  z.avail_in = content.size();
  z.next_out = out.data();
  z.avail_out = out.size();
  boost::beast::error_code error;
  stream.write(z, zlib::Flush::finish, error);
  out.resize(z.total_out);
  return out;
}

inline std::string gzipped(std::string_view content) {
  boost::crc_32_type crc;
  crc.process_bytes(content.data(), content.size());
  const std::string header("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10);
  return header + deflated(content) + little_endian(crc.checksum()) +
         little_endian(static_cast<std::uint32_t>(content.size()));
}

// Writes `content`, gzipped if the name ends so, and returns the path.
inline std::filesystem::path write(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  write_file_atomically(path, path.extension() == ".gz" ? gzipped(content) : std::string(content));
  return path;
}

// The text of the Error that `act` throws, or "" if it throws none.
template <class Error, class Act>
std::string error_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace tutti::data::fixture
