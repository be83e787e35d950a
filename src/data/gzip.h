// Gzip (RFC 1952) decoded piece by piece, from bytes that are already in memory or mapped.
//
// The caller says how much it wants, so a small file that decodes to a huge one takes no memory it was not
// given. Header, CRC-32 and length are checked, and members that follow one another are decoded as one.
// Errors are DataError: one line with the name, the offset in the compressed file and what is wrong there.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::data {

// Deflate cannot expand by more than this, so a claim beyond it is false before anything is decoded.
inline constexpr std::size_t kGzipMaxExpansion = 1032;

// True if the bytes begin as a gzip file does.
bool is_gzip(std::span<const std::byte> bytes);

// Not thread-safe. `input` must outlive the reader; `name` is for messages.
class GzipReader {
 public:
  GzipReader(std::span<const std::byte> input, std::string name);
  ~GzipReader();
  GzipReader(GzipReader&&) noexcept;
  GzipReader& operator=(GzipReader&&) noexcept;

  // Fills `out`, and returns less than its size only at the end of the file. The checksum of the last bytes
  // is known to be right only once a read has returned less than asked: read on until then. Throws DataError.
  std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The whole content, checked; DataError if it is longer than `limit` bytes.
std::vector<std::byte> decode_gzip(std::span<const std::byte> input, const std::string& name,
                                   std::size_t limit);

}  // namespace tutti::data
