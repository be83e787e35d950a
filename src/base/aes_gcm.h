// AES-256-GCM: what is sent stays unchanged, and, where that is asked for, unread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/crypto.h"

namespace tutti {

// One key, for one sender. Every message has a number, the nonce of its tag: a number must not be used for
// two different messages under one key, or the tags of both can be forged. Tags are verified in the same time
// whatever their bytes are. Not thread-safe.
class AesGcm {
 public:
  using Tag = std::array<std::byte, 16>;

  explicit AesGcm(const Digest& key);
  ~AesGcm();
  AesGcm(AesGcm&&) noexcept;
  AesGcm& operator=(AesGcm&&) noexcept;

  // The tag of `header` and `payload` in a row, both of which stay readable (GMAC). The header's length is a
  // multiple of 64.
  Tag authenticate(std::uint64_t number, std::span<const std::byte> header,
                   std::span<const std::byte> payload);
  bool is_authentic(std::uint64_t number, std::span<const std::byte> header,
                    std::span<const std::byte> payload, const Tag& tag);

  // Writes the payload encrypted to `out`, as many bytes; the tag holds for the header, too, which stays
  // readable.
  Tag encrypt(std::uint64_t number, std::span<const std::byte> header, std::span<const std::byte> payload,
              std::byte* out);

  // Decrypts in place. False if the tag does not fit: the payload then is noise.
  bool decrypt(std::uint64_t number, std::span<const std::byte> header, std::span<std::byte> payload,
               const Tag& tag);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti
