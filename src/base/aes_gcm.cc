#include "base/aes_gcm.h"

#include <openssl/evp.h>

#include <climits>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/ghash.h"

namespace tutti {
namespace {

unsigned char* octets(std::byte* p) {
  return reinterpret_cast<unsigned char*>(p);
}
const unsigned char* octets(const std::byte* p) {
  return reinterpret_cast<const unsigned char*>(p);
}

int length_of(std::span<const std::byte> bytes) {
  TUTTI_CHECK(bytes.size() <= INT_MAX);
  return static_cast<int>(bytes.size());
}

// A message's number as the 96 bits that GCM takes.
std::array<unsigned char, 12> nonce_of(std::uint64_t number) {
  std::array<unsigned char, 12> nonce{};
  for (std::size_t i = 0; i < sizeof number; ++i) {
    nonce[nonce.size() - 1 - i] = static_cast<unsigned char>(number >> (8 * i));
  }
  return nonce;
}

}  // namespace

// OpenSSL expands the key once for each context; a message only sets the nonce.
struct AesGcm::State {
  explicit State(const Digest& key) {
    TUTTI_CHECK(
        EVP_EncryptInit_ex(encrypting, EVP_aes_256_gcm(), nullptr, octets(key.data()), nullptr) == 1 &&
        EVP_DecryptInit_ex(decrypting, EVP_aes_256_gcm(), nullptr, octets(key.data()), nullptr) == 1 &&
        EVP_EncryptInit_ex(block, EVP_aes_256_ecb(), nullptr, octets(key.data()), nullptr) == 1 &&
        EVP_CIPHER_CTX_set_padding(block, 0) == 1);
    if (Ghash::is_supported()) ghash.emplace(encrypt_block({}));
  }
  ~State() {
    EVP_CIPHER_CTX_free(encrypting);
    EVP_CIPHER_CTX_free(decrypting);
    EVP_CIPHER_CTX_free(block);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Ghash::Block encrypt_block(const Ghash::Block& in) const {
    Ghash::Block out;
    int n = 0;
    TUTTI_CHECK(EVP_EncryptUpdate(block, octets(out.data()), &n, octets(in.data()), 16) == 1 && n == 16);
    return out;
  }

  // GMAC by parts: the hash, masked by what the cipher makes of the nonce and a counter of 1.
  Tag mask(std::uint64_t number, Tag hash) const {
    Ghash::Block counter{};
    const auto nonce = nonce_of(number);
    std::memcpy(counter.data(), nonce.data(), nonce.size());
    counter.back() = std::byte{1};
    const Ghash::Block mask = encrypt_block(counter);
    for (std::size_t i = 0; i < hash.size(); ++i) hash[i] ^= mask[i];
    return hash;
  }

  // Without `out` the payload is only authenticated.
  Tag tag_of(std::uint64_t number, std::span<const std::byte> header, std::span<const std::byte> payload,
             std::byte* out) const {
    const auto nonce = nonce_of(number);
    int n = 0;
    Tag tag;
    std::array<unsigned char, 16> nothing;
    TUTTI_CHECK(
        EVP_EncryptInit_ex(encrypting, nullptr, nullptr, nullptr, nonce.data()) == 1 &&
        EVP_EncryptUpdate(encrypting, nullptr, &n, octets(header.data()), length_of(header)) == 1 &&
        (payload.empty() ||
         EVP_EncryptUpdate(encrypting, octets(out), &n, octets(payload.data()), length_of(payload)) == 1) &&
        EVP_EncryptFinal_ex(encrypting, nothing.data(), &n) == 1 &&
        EVP_CIPHER_CTX_ctrl(encrypting, EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1);
    return tag;
  }

  EVP_CIPHER_CTX* encrypting = EVP_CIPHER_CTX_new();
  EVP_CIPHER_CTX* decrypting = EVP_CIPHER_CTX_new();
  EVP_CIPHER_CTX* block = EVP_CIPHER_CTX_new();
  std::optional<Ghash> ghash;
};

AesGcm::AesGcm(const Digest& key) : state_(std::make_unique<State>(key)) {}
AesGcm::~AesGcm() = default;
AesGcm::AesGcm(AesGcm&&) noexcept = default;
AesGcm& AesGcm::operator=(AesGcm&&) noexcept = default;

AesGcm::Tag AesGcm::authenticate(std::uint64_t number, std::span<const std::byte> header,
                                 std::span<const std::byte> payload) {
  if (state_->ghash) return state_->mask(number, (*state_->ghash)(header, payload));
  return state_->tag_of(number, header, payload, nullptr);
}

bool AesGcm::is_authentic(std::uint64_t number, std::span<const std::byte> header,
                          std::span<const std::byte> payload, const Tag& tag) {
  return equal_secret(authenticate(number, header, payload), tag);
}

AesGcm::Tag AesGcm::encrypt(std::uint64_t number, std::span<const std::byte> header,
                            std::span<const std::byte> payload, std::byte* out) {
  return state_->tag_of(number, header, payload, out);
}

bool AesGcm::decrypt(std::uint64_t number, std::span<const std::byte> header, std::span<std::byte> payload,
                     const Tag& tag) {
  EVP_CIPHER_CTX* const ctx = state_->decrypting;
  const auto nonce = nonce_of(number);
  int n = 0;
  Tag expected = tag;
  std::array<unsigned char, 16> nothing;
  TUTTI_CHECK(EVP_DecryptInit_ex(ctx, nullptr, nullptr, nullptr, nonce.data()) == 1 &&
              EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, static_cast<int>(expected.size()),
                                  expected.data()) == 1 &&
              EVP_DecryptUpdate(ctx, nullptr, &n, octets(header.data()), length_of(header)) == 1 &&
              (payload.empty() || EVP_DecryptUpdate(ctx, octets(payload.data()), &n, octets(payload.data()),
                                                    length_of(payload)) == 1));
  return EVP_DecryptFinal_ex(ctx, nothing.data(), &n) == 1;
}

}  // namespace tutti
