// SHA-256, HMAC, HKDF and random bytes, from OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

using Digest = std::array<std::byte, 32>;

// Streaming SHA-256. Not thread-safe; digest() ends it.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text) { return update(std::as_bytes(std::span(text))); }
  Digest digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest sha256(std::span<const std::byte> bytes);
Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

// A key of 256 bits that is made from `secret` for one purpose (RFC 5869): another salt or another purpose
// gives a key that tells nothing about this one.
Digest hkdf_sha256(std::span<const std::byte> secret, std::span<const std::byte> salt,
                   std::string_view purpose);

// Same time whatever the bytes are.
bool equal_secret(std::span<const std::byte> a, std::span<const std::byte> b);

// From the system's generator; throws RunError if it fails.
void fill_random(std::span<std::byte> out);

std::string to_hex(std::span<const std::byte> bytes);
inline std::string sha256_hex(std::span<const std::byte> bytes) {
  return to_hex(sha256(bytes));
}

}  // namespace tutti
