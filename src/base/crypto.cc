#include "base/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <vector>

#include "base/error.h"

namespace tutti {
namespace {

unsigned char* raw(std::byte* p) {
  return reinterpret_cast<unsigned char*>(p);
}
const unsigned char* raw(const std::byte* p) {
  return reinterpret_cast<const unsigned char*>(p);
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* ctx = EVP_MD_CTX_new();
  State() { TUTTI_CHECK(EVP_DigestInit_ex(ctx, EVP_sha256(), nullptr) == 1); }
  ~State() { EVP_MD_CTX_free(ctx); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  TUTTI_CHECK(EVP_DigestUpdate(state_->ctx, bytes.data(), bytes.size()) == 1);
  return *this;
}

Digest Sha256::digest() {
  Digest out;
  TUTTI_CHECK(EVP_DigestFinal_ex(state_->ctx, raw(out.data()), nullptr) == 1);
  return out;
}

Digest sha256(std::span<const std::byte> bytes) {
  return Sha256().update(bytes).digest();
}

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  Digest out;
  TUTTI_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), raw(message.data()),
                   message.size(), raw(out.data()), nullptr) != nullptr);
  return out;
}

Digest hkdf_sha256(std::span<const std::byte> secret, std::span<const std::byte> salt,
                   std::string_view purpose) {
  const Digest extracted = hmac_sha256(salt, secret);
  // The first block of the expansion is the key: it is as long as the digest.
  std::vector<std::byte> info;
  for (const char c : purpose) info.push_back(static_cast<std::byte>(c));
  info.push_back(std::byte{1});
  return hmac_sha256(extracted, info);
}

bool equal_secret(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_random(std::span<std::byte> out) {
  if (RAND_bytes(raw(out.data()), static_cast<int>(out.size())) != 1) {
    throw RunError("the system's random generator failed");
  }
}

std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    hex += kDigits[std::to_integer<int>(b) >> 4];
    hex += kDigits[std::to_integer<int>(b) & 15];
  }
  return hex;
}

}  // namespace tutti
