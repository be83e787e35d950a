#include "data/gzip.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "data/idx_fixture.h"

namespace tutti::data {
namespace {

using fixture::as_bytes;
using fixture::error_of;
using fixture::gzipped;

constexpr std::size_t kLimit = 1 << 20;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string unpacked(std::string_view packed, std::size_t limit = kLimit) {
  return text_of(decode_gzip(as_bytes(packed), "f.gz", limit));
}

std::string error_in(std::string_view packed, std::size_t limit = kLimit) {
  return error_of<DataError>([&] { unpacked(packed, limit); });
}

// Compressible in parts, with matches near and far.
std::string sample(std::size_t bytes) {
  SplitMix64 random(bytes);
  std::string text;
  while (text.size() < bytes) {
    if (text.size() > 100 && random.below(2) == 0) {
      text += text.substr(random.below(text.size() - 50), 50);
    } else {
      text += static_cast<char>(random.below(64));
    }
  }
  text.resize(bytes);
  return text;
}

TEST(Gzip, DecodesWhatWasEncoded) {
  for (const std::size_t bytes : {0, 1, 2, 7, 100, 1000, 40'000, 200'000}) {
    const std::string content = sample(bytes);
    EXPECT_EQ(unpacked(gzipped(content)), content) << bytes;
  }
}

TEST(Gzip, DecodesStoredBlocks) {
  const std::string content = "abc";
  const std::string whole = gzipped(content);
  const std::string stored =
      whole.substr(0, 10) + std::string("\x01\x03\x00\xfc\xff", 5) + content + whole.substr(whole.size() - 8);
  EXPECT_EQ(unpacked(stored), content);
}

TEST(Gzip, AnyPieceSizeGivesTheSameBytes) {
  const std::string content = sample(10'000);
  const std::string packed = gzipped(content);
  for (const std::size_t piece : {1, 3, 257, 258, 4096, 10'000, 20'000}) {
    GzipReader reader(as_bytes(packed), "f.gz");
    std::string all;
    std::vector<std::byte> buffer(piece);
    while (const std::size_t n = reader.read(buffer)) all += text_of({buffer.begin(), buffer.begin() + n});
    EXPECT_EQ(all, content) << piece;
  }
}

TEST(Gzip, SkipsOptionalHeaderFields) {
  const std::string whole = gzipped("hello");
  std::string header = whole.substr(0, 10);
  header[3] = 2 | 4 | 8 | 16;
  const std::string fields = std::string("\x02\x00xy", 4) + std::string("name\0comment\0", 13) + "hc";
  EXPECT_EQ(unpacked(header + fields + whole.substr(10)), "hello");
}

TEST(Gzip, DecodesMembersThatFollowOneAnotherAndZeroPadding) {
  EXPECT_EQ(unpacked(gzipped("one ") + gzipped("two") + std::string(20, '\0')), "one two");
}

TEST(Gzip, RefusesBytesAfterTheEnd) {
  EXPECT_NE(error_in(gzipped("one") + "rest").find("4 unexpected bytes after"), std::string::npos);
}

TEST(Gzip, RefusesWhatIsNoGzip) {
  EXPECT_EQ(error_in("plain"), "f.gz: offset 0: not a gzip file: it does not begin with 1f 8b");
  EXPECT_NE(error_in(""), "");
}

TEST(Gzip, NoticesTruncationAtEveryByte) {
  const std::string packed = gzipped(sample(3000));
  for (std::size_t n = 2; n < packed.size(); ++n) {
    EXPECT_EQ(error_in(packed.substr(0, n)).find(fmt::format("f.gz: offset {}: the file ends", n)), 0u) << n;
  }
}

TEST(Gzip, NoticesAFlippedBitInTheData) {
  const std::string packed = gzipped(sample(3000));
  for (std::size_t i = 10; i < packed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = packed;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      // The last byte before the trailer is padded with bits that mean nothing.
      if (i == packed.size() - 9 && error_in(damaged).empty()) continue;
      EXPECT_NE(error_in(damaged), "") << i << "." << bit;
    }
  }
}

TEST(Gzip, RandomBytesAreRefused) {
  SplitMix64 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string noise = gzipped("").substr(0, 10);
    for (int i = 0; i < 300; ++i) noise += static_cast<char>(random());
    ASSERT_NE(error_in(noise), "") << round;
  }
}

TEST(Gzip, NamesTheChecksumAndTheLengthThatDiffer) {
  std::string packed = gzipped("content");
  const std::size_t trailer = packed.size() - 8;
  packed[packed.size() - 4] = 9;
  EXPECT_EQ(error_in(packed),
            fmt::format("f.gz: offset {}: the content has 7 bytes, expected 9", trailer + 4));
  packed[trailer] = static_cast<char>(packed[trailer] ^ 1);
  EXPECT_EQ(error_in(packed).find(fmt::format("f.gz: offset {}: CRC-32 of the content", trailer)), 0u);
}

TEST(Gzip, StopsAtTheLimit) {
  const std::string bomb = gzipped(std::string(1'000'000, 'x'));
  ASSERT_LT(bomb.size(), 2000u);
  EXPECT_EQ(error_in(bomb, 999'999), "f.gz: decodes to more than 999999 bytes");
  EXPECT_EQ(error_in(bomb, 1'000'000), "");
}

}  // namespace
}  // namespace tutti::data
