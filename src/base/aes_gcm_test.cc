#include "base/aes_gcm.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <memory>
#include <vector>

namespace tutti {
namespace {

std::vector<std::byte> pattern(std::size_t n, std::size_t seed) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>((i * 29 + seed * 13 + 7) % 253);
  return bytes;
}

const std::vector<std::byte> kHeader = pattern(64, 99);

// Test cases 13 and 14 of the specification of GCM (McGrew, Viega): a key and a nonce of zeros.
TEST(AesGcm, MatchesTheSpecification) {
  AesGcm zeros{Digest{}};
  EXPECT_EQ(to_hex(zeros.authenticate(0, {}, {})), "530f8afbc74536b9a963b4f1c4cb738b");
  const std::vector<std::byte> plain(16);
  std::vector<std::byte> sent(16);
  EXPECT_EQ(to_hex(zeros.encrypt(0, {}, plain, sent.data())), "d0d1c8a799996bf0265b98b5d48ab919");
  EXPECT_EQ(to_hex(sent), "cea7403d4d606b6e074ec5d3baf39d18");
}

class AesGcmOfLength : public ::testing::TestWithParam<std::size_t> {};

TEST_P(AesGcmOfLength, AuthenticatesWhatStaysAsItWas) {
  AesGcm sender(sha256(kHeader));
  AesGcm receiver(sha256(kHeader));
  auto payload = pattern(GetParam(), 1);
  const auto tag = sender.authenticate(7, kHeader, payload);
  EXPECT_TRUE(receiver.is_authentic(7, kHeader, payload, tag));
  EXPECT_FALSE(receiver.is_authentic(8, kHeader, payload, tag)) << "the tag of another message";
  auto header = kHeader;
  header.back() ^= std::byte{1};
  EXPECT_FALSE(receiver.is_authentic(7, header, payload, tag));
  if (payload.empty()) return;
  for (const std::size_t at : {std::size_t{0}, payload.size() / 2, payload.size() - 1}) {
    payload[at] ^= std::byte{0x80};
    EXPECT_FALSE(receiver.is_authentic(7, kHeader, payload, tag)) << at;
    payload[at] ^= std::byte{0x80};
  }
  payload.pop_back();
  EXPECT_FALSE(receiver.is_authentic(7, kHeader, payload, tag));
}

// GMAC as OpenSSL has it from end to end, whatever this processor makes it with.
TEST_P(AesGcmOfLength, AuthenticatesAsOpenSslDoes) {
  const Digest key = sha256(kHeader);
  const auto payload = pattern(GetParam(), 3);
  for (const auto& header : {kHeader, std::vector<std::byte>{}}) {
    AesGcm ours(key);
    std::array<unsigned char, 12> nonce{};
    nonce[11] = 5;
    const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> ctx(EVP_CIPHER_CTX_new(),
                                                                              EVP_CIPHER_CTX_free);
    const auto raw = [](std::span<const std::byte> b) {
      return reinterpret_cast<const unsigned char*>(b.data());
    };
    int n = 0;
    unsigned char end[16];
    AesGcm::Tag theirs;
    ASSERT_EQ(EVP_EncryptInit_ex(ctx.get(), EVP_aes_256_gcm(), nullptr, raw(key), nonce.data()), 1);
    for (const auto& part : {header, payload}) {
      if (part.empty()) continue;
      ASSERT_EQ(EVP_EncryptUpdate(ctx.get(), nullptr, &n, raw(part), static_cast<int>(part.size())), 1);
    }
    ASSERT_EQ(EVP_EncryptFinal_ex(ctx.get(), end, &n), 1);
    ASSERT_EQ(EVP_CIPHER_CTX_ctrl(ctx.get(), EVP_CTRL_GCM_GET_TAG, 16, theirs.data()), 1);
    EXPECT_EQ(to_hex(ours.authenticate(5, header, payload)), to_hex(theirs));
  }
}

TEST_P(AesGcmOfLength, EncryptsAndDecryptsInPlace) {
  AesGcm sender(sha256(kHeader));
  AesGcm receiver(sha256(kHeader));
  const auto payload = pattern(GetParam(), 2);
  std::vector<std::byte> sent(payload.size());
  const auto tag = sender.encrypt(3, kHeader, payload, sent.data());
  EXPECT_EQ(sent == payload, payload.empty());
  auto got = sent;
  ASSERT_TRUE(receiver.decrypt(3, kHeader, got, tag));
  EXPECT_EQ(got, payload);
  got = sent;
  EXPECT_FALSE(receiver.decrypt(4, kHeader, got, tag)) << "the tag of another message";
  got = sent;
  auto other = tag;
  other[15] ^= std::byte{1};
  EXPECT_FALSE(receiver.decrypt(3, kHeader, got, other));
  if (sent.empty()) return;
  got = sent;
  got[got.size() / 2] ^= std::byte{4};
  EXPECT_FALSE(receiver.decrypt(3, kHeader, got, tag));
}

// Around what is taken at a time: a block, four of them, sixteen times four.
INSTANTIATE_TEST_SUITE_P(All, AesGcmOfLength,
                         ::testing::Values(0, 1, 15, 16, 17, 48, 64, 100, 255, 256, 257, 511, 512, 513, 1000,
                                           1023, 1024, 1025, 1088, 2047, 2048, 4096, 65'537, 524'288));

}  // namespace
}  // namespace tutti
