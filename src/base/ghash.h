// GHASH, the hash of AES-GCM, several times as fast as OpenSSL 3.0 has it, where the processor multiplies
// polynomials in vectors of 512 bits (x86 with AVX-512 and VPCLMULQDQ).
//
// A tag over every byte that leaves and every byte that arrives is only cheap beside a socket if it is hashed
// far faster than the kernel copies it. Elsewhere OpenSSL does it (base/aes_gcm.cc), and tests hold one
// against the other.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace tutti {

class Ghash {
 public:
  using Block = std::array<std::byte, 16>;

  // Whether this processor can.
  static bool is_supported();

  // `key` is what the cipher makes of a block of zeros.
  explicit Ghash(const Block& key);

  // Over `header`, whose length is a multiple of 64, and `payload`, both of them readable data of GCM. Takes
  // the same time whatever the bytes are. Thread-safe.
  Block operator()(std::span<const std::byte> header, std::span<const std::byte> payload) const;

 private:
  static constexpr std::size_t kVector = 64;
  static constexpr std::size_t kPowers = 16;

  struct alignas(kVector) Vector {
    std::array<std::byte, kVector> bytes;
  };
  Vector lanes_;                           // the key's powers 4, 3, 2 and 1
  std::array<Vector, kPowers> broadcast_;  // powers 4, 8, ... 64, each in all four lanes
};

}  // namespace tutti
