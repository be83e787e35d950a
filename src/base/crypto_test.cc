#include "base/crypto.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crypto, Sha256MatchesTheStandardsExample) {
  EXPECT_EQ(sha256_hex(bytes_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Crypto, StreamingGivesTheSameDigest) {
  EXPECT_EQ(Sha256().update("a").update("").update("bc").digest(), sha256(bytes_of("abc")));
}

TEST(Crypto, HmacMatchesRfc4231Case2) {
  EXPECT_EQ(to_hex(hmac_sha256(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Crypto, HkdfMatchesRfc5869Case1) {
  const std::vector<std::byte> secret(22, std::byte{0x0b});
  std::vector<std::byte> salt;
  for (int i = 0; i <= 0x0c; ++i) salt.push_back(static_cast<std::byte>(i));
  const std::string_view purpose = "\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9";
  EXPECT_EQ(to_hex(hkdf_sha256(secret, salt, purpose)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

TEST(Crypto, RandomBytesDiffer) {
  Digest a{};
  Digest b{};
  fill_random(a);
  fill_random(b);
  EXPECT_FALSE(equal_secret(a, b));
  EXPECT_TRUE(equal_secret(a, a));
}

TEST(Crypto, SecretsAreEqualInEveryByteOrNotAtAll) {
  Digest a{};
  fill_random(a);
  for (std::size_t i = 0; i < a.size(); ++i) {
    Digest b = a;
    b[i] ^= std::byte{1};
    EXPECT_FALSE(equal_secret(a, b)) << i;
  }
  EXPECT_FALSE(equal_secret(a, std::span(a).first(8)));
  EXPECT_FALSE(equal_secret(std::span(a).first(8), a));
}

}  // namespace
}  // namespace tutti
