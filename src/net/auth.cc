#include "net/auth.h"

#include <bit>
#include <string_view>
#include <vector>

namespace tutti::net {
namespace {

Digest prove(const Secret& secret, std::string_view role, const Hello& hello, const Nonce& listener_nonce) {
  std::vector<std::byte> transcript;
  const auto add = [&](std::span<const std::byte> bytes) {
    transcript.insert(transcript.end(), bytes.begin(), bytes.end());
  };
  add(std::as_bytes(std::span(role)));
  add(std::as_bytes(std::span(&hello, 1)));
  add(listener_nonce);
  return hmac_sha256(secret, transcript);
}

}  // namespace

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

std::optional<Challenge> answer(const Secret& secret, const Hello& hello, Rank self) {
  const Hello ours;
  if (hello.magic != ours.magic || hello.version != ours.version || hello.to != to_int(self))
    return std::nullopt;
  Challenge challenge;
  fill_random(challenge.nonce);
  challenge.proof = prove(secret, "listener", hello, challenge.nonce);
  return challenge;
}

std::optional<Refusal> refuse(const Hello& hello) {
  if (hello.magic != Hello{}.magic || hello.version == kProtocolVersion) return std::nullopt;
  return Refusal{};
}

std::optional<std::uint32_t> refused_by(const Challenge& received) {
  const auto refusal = std::bit_cast<Refusal>(received);
  const Refusal ours;
  const bool is_one = refusal.magic == ours.magic && refusal.zeros == ours.zeros;
  if (!is_one || refusal.version == kProtocolVersion) return std::nullopt;
  return refusal.version;
}

std::optional<Response> respond(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  if (!equal_secret(challenge.proof, prove(secret, "listener", hello, challenge.nonce))) return std::nullopt;
  return Response{prove(secret, "caller", hello, challenge.nonce)};
}

bool accept(const Secret& secret, const Hello& hello, const Challenge& challenge, const Response& response) {
  return equal_secret(response.proof, prove(secret, "caller", hello, challenge.nonce));
}

}  // namespace tutti::net
