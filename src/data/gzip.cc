#include "data/gzip.h"

#include <algorithm>
#include <boost/beast/zlib/inflate_stream.hpp>
#include <boost/crc.hpp>
#include <cstdint>

#include "base/error.h"

namespace tutti::data {
namespace {

namespace zlib = boost::beast::zlib;

constexpr std::size_t kInputPiece = 16 << 10;  // how closely an error's offset is known
constexpr std::size_t kTrailerBytes = 8;

enum class HeaderFlag : unsigned { header_crc = 2, extra = 4, name = 8, comment = 16, reserved = 0xe0 };

bool has(unsigned flags, HeaderFlag flag) {
  return (flags & static_cast<unsigned>(flag)) != 0;
}

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

struct GzipReader::State {
  std::span<const std::byte> input;
  std::string name;
  std::size_t at = 0;  // next byte of input
  bool in_member = false;
  bool ended = false;
  zlib::inflate_stream inflate;
  boost::crc_32_type crc;
  std::uint32_t length = 0;  // of this member, modulo 2^32 as the format has it

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: offset {}: {}", name, at, what));
  }

  void need(std::size_t bytes, const char* part) {
    if (input.size() - at >= bytes) return;
    at = input.size();
    fail(fmt::format("the file ends inside the gzip {}", part));
  }

  unsigned take_byte(const char* part) {
    need(1, part);
    return std::to_integer<unsigned>(input[at++]);
  }

  std::uint32_t take_u32(const char* part) {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value |= take_byte(part) << (8 * i);
    return value;
  }

  void begin_member() {
    if (!is_gzip(input.subspan(at))) fail("not a gzip file: it does not begin with 1f 8b");
    need(10, "header");
    if (input[at + 2] != std::byte{8}) fail("unknown gzip compression method, expected 8 (deflate)");
    const auto flags = std::to_integer<unsigned>(input[at + 3]);
    if (has(flags, HeaderFlag::reserved)) fail(fmt::format("unknown gzip flags {:#04x}", flags));
    at += 10;
    if (has(flags, HeaderFlag::extra)) {
      std::size_t extra = take_byte("header");
      extra |= take_byte("header") << 8;
      need(extra, "header");
      at += extra;
    }
    for (const HeaderFlag text : {HeaderFlag::name, HeaderFlag::comment}) {
      if (!has(flags, text)) continue;
      while (take_byte("header") != 0) continue;
    }
    if (has(flags, HeaderFlag::header_crc)) {
      need(2, "header");
      at += 2;
    }
    inflate.reset();
    crc.reset();
    length = 0;
    in_member = true;
  }

  std::size_t decode_piece(std::span<std::byte> out) {
    const std::size_t offered = std::min(kInputPiece, input.size() - at);
    zlib::z_params z{};
    z.next_in = input.data() + at;
    z.avail_in = offered;
    z.next_out = out.data();
    z.avail_out = out.size();
    boost::beast::error_code error;
    inflate.write(z, zlib::Flush::none, error);
    const bool end = error == zlib::error::end_of_stream;
    if (error && !end && error != zlib::error::need_buffers) {
      fail(fmt::format("damaged deflate data here or in the next {} bytes: {}", offered, error.message()));
    }
    const std::size_t eaten = offered - z.avail_in;
    const std::size_t made = out.size() - z.avail_out;
    crc.process_bytes(out.data(), made);
    length += static_cast<std::uint32_t>(made);
    at += eaten;
    if (end) {
      // The stream may have taken whole bytes of the trailer into its bit reservoir, whose fill is in
      // data_type.
      at -= static_cast<std::size_t>(z.data_type & 63) / 8;
      end_member();
    } else if (eaten == 0 && made == 0) {
      fail("the file ends inside the gzip data");
    }
    return made;
  }

  void end_member() {
    need(kTrailerBytes, "trailer");
    const std::size_t trailer = at;
    const std::uint32_t wanted_crc = take_u32("trailer");
    const std::uint32_t wanted_length = take_u32("trailer");
    if (wanted_crc != crc.checksum()) {
      at = trailer;
      fail(fmt::format("CRC-32 of the content is {:#010x}, expected {:#010x}", crc.checksum(), wanted_crc));
    }
    if (wanted_length != length) {
      at = trailer + 4;
      fail(fmt::format("the content has {} bytes, expected {}", length, wanted_length));
    }
    in_member = false;
    const auto rest = input.subspan(at);
    if (is_gzip(rest)) return;
    if (std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{0}; })) {
      fail(fmt::format("{} unexpected bytes after the gzip data", rest.size()));
    }
    ended = true;
  }
};

GzipReader::GzipReader(std::span<const std::byte> input, std::string name)
    : state_(std::make_unique<State>()) {
  state_->input = input;
  state_->name = std::move(name);
}
GzipReader::~GzipReader() = default;
GzipReader::GzipReader(GzipReader&&) noexcept = default;
GzipReader& GzipReader::operator=(GzipReader&&) noexcept = default;

std::size_t GzipReader::read(std::span<std::byte> out) {
  std::size_t filled = 0;
  while (filled < out.size() && !state_->ended) {
    if (!state_->in_member) state_->begin_member();
    filled += state_->decode_piece(out.subspan(filled));
  }
  return filled;
}

std::vector<std::byte> decode_gzip(std::span<const std::byte> input, const std::string& name,
                                   std::size_t limit) {
  GzipReader reader(input, name);
  std::vector<std::byte> content;
  while (true) {
    const std::size_t before = content.size();
    const std::size_t room = std::max<std::size_t>(64 << 10, before);  // doubles
    content.resize(before + std::min(room, limit - before + 1));
    const std::size_t made = reader.read(std::span(content).subspan(before));
    if (before + made > limit) throw DataError(fmt::format("{}: decodes to more than {} bytes", name, limit));
    if (before + made == content.size()) continue;
    content.resize(before + made);
    return content;
  }
}

}  // namespace tutti::data
