#include "net/auth.h"

#include <fmt/format.h>

#include <bit>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace tutti::net {
namespace {

std::span<const std::byte> raw_bytes(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::vector<std::byte> joined(std::string_view role,
                              std::initializer_list<std::span<const std::byte>> parts) {
  const auto name = std::as_bytes(std::span(role));
  std::vector<std::byte> all(name.begin(), name.end());
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Digest prove(const Secret& secret, std::string_view role, const Hello& hello, const Challenge& challenge) {
  return hmac_sha256(secret, joined(role, {raw_bytes(hello), challenge.nonce, raw_bytes(challenge.terms)}));
}

// Hides the terms from whoever does not know the secret, and shows them to who does. Each mask is used once:
// the listener's nonce is in it.
Terms masked(const Secret& secret, const Hello& hello, const Nonce& nonce, Terms terms) {
  const Digest mask = hmac_sha256(secret, joined("terms", {raw_bytes(hello), nonce}));
  for (std::size_t i = 0; i < mask.size(); ++i) terms.job[i] ^= mask[i];
  return terms;
}

struct Keys {
  Digest caller;
  Digest listener;
};

Keys derive(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  const Digest transcript =
      sha256(joined("", {raw_bytes(hello), challenge.nonce, raw_bytes(challenge.terms)}));
  return {hkdf_sha256(secret, transcript, "tutti frames of the caller"),
          hkdf_sha256(secret, transcript, "tutti frames of the listener")};
}

}  // namespace

std::optional<std::string> disagreement(const Terms& theirs, const Terms& ours) {
  if (theirs.wire != ours.wire)
    return fmt::format("--wire is {} there and {} here", name_of(theirs.wire), name_of(ours.wire));
  if (theirs.job == ours.job || theirs.job == Digest{} || ours.job == Digest{}) return std::nullopt;
  return fmt::format("the job is {} there and {} here", to_hex(theirs.job), to_hex(ours.job));
}

Secret make_secret() {
  Secret secret;
  fill_random(secret);
  return secret;
}

Hello make_hello(Rank from, Rank to) {
  Hello hello;
  hello.from = to_int(from);
  hello.to = to_int(to);
  fill_random(hello.nonce);
  return hello;
}

std::optional<Challenge> answer(const Credentials& listener, const Hello& hello, Rank self) {
  const Hello ours;
  if (hello.magic != ours.magic || hello.version != ours.version || hello.to != to_int(self))
    return std::nullopt;
  Challenge challenge;
  fill_random(challenge.nonce);
  challenge.terms = masked(listener.secret, hello, challenge.nonce, listener.terms);
  challenge.proof = prove(listener.secret, "listener", hello, challenge);
  return challenge;
}

std::optional<Refusal> refuse(const Hello& hello) {
  if (hello.magic != Hello{}.magic || hello.version == kProtocolVersion) return std::nullopt;
  return Refusal{};
}

std::optional<std::uint32_t> refused_by(const Challenge& received) {
  const auto refusal = std::bit_cast<Refusal>(std::array{received.nonce, received.proof});
  const Refusal ours;
  const bool is_one = refusal.magic == ours.magic && refusal.zeros == ours.zeros;
  if (!is_one || refusal.version == kProtocolVersion) return std::nullopt;
  return refusal.version;
}

std::optional<Response> respond(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  if (!equal_secret(challenge.proof, prove(secret, "listener", hello, challenge))) return std::nullopt;
  return Response{prove(secret, "caller", hello, challenge)};
}

Terms terms_of(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  return masked(secret, hello, challenge.nonce, challenge.terms);
}

bool accept(const Secret& secret, const Hello& hello, const Challenge& challenge, const Response& response) {
  return equal_secret(response.proof, prove(secret, "caller", hello, challenge));
}

SessionKeys keys_of_caller(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  const Keys keys = derive(secret, hello, challenge);
  return {.sending = keys.caller, .receiving = keys.listener};
}

SessionKeys keys_of_listener(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  const Keys keys = derive(secret, hello, challenge);
  return {.sending = keys.listener, .receiving = keys.caller};
}

}  // namespace tutti::net
