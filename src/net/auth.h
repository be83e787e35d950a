// Who may speak: mutual challenge and response over the job's secret, with no I/O in it.
//
//   caller                                    listener
//   Hello  {magic, version, from, to, nonce}  ->
//                      <-  Challenge {nonce, HMAC(secret, "listener" + transcript)}
//   Response {HMAC(secret, "caller" + transcript)}  ->
//                      <-  Welcome {accepted}
//
// or, where the hello is of another version,
//                      <-  Refusal {magic, version}
//
// The transcript is both nonces and what the hello claims, so a proof fits one connection, one direction and
// one pair of ranks. Every message has a fixed size: nothing that a stranger sends decides how much is read
// or stored.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/crypto.h"
#include "base/rank.h"

namespace tutti::net {

// 256 bits that the launcher draws for each job and hands to workers through an inherited descriptor.
using Secret = Digest;
using Nonce = Digest;

Secret make_secret();

// What this program speaks. Whatever a version changes, a Hello stays 56 bytes long with magic and version
// where they are, and a Refusal as it is: how else could two versions tell each other.
constexpr std::uint32_t kProtocolVersion = 1;

// The listener that is no rank: the job's rendezvous.
constexpr Rank kRendezvous{-1};

struct Hello {
  std::array<char, 8> magic = {'T', 'U', 'T', 'T', 'I', '\r', '\n', '\0'};
  std::uint32_t version = kProtocolVersion;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::uint32_t reserved = 0;
  Nonce nonce{};
};
static_assert(sizeof(Hello) == 56);

struct Challenge {
  Nonce nonce{};
  Digest proof{};
};

// In a Challenge's place, and of its size: a program that knows no refusal takes it for a challenge that does
// not prove the secret, and stops. It is the same for everybody and tells nothing but the version.
struct Refusal {
  std::array<char, 8> magic = {'T', 'U', 'T', 'T', 'I', '?', '\n', '\0'};
  std::uint32_t version = kProtocolVersion;
  std::array<std::byte, 52> zeros{};
  bool operator==(const Refusal&) const = default;
};
static_assert(sizeof(Refusal) == sizeof(Challenge));

struct Response {
  Digest proof{};
};

struct Welcome {
  std::uint64_t accepted = 1;
};

Hello make_hello(Rank from, Rank to);

// What the listener answers, or nothing if the hello is none of ours (other magic, version or addressee).
std::optional<Challenge> answer(const Secret& secret, const Hello& hello, Rank self);

// What the listener answers a hello of another version, and only that.
std::optional<Refusal> refuse(const Hello& hello);

// The listener's version, if what came in a challenge's place is a refusal.
std::optional<std::uint32_t> refused_by(const Challenge& received);

// What the caller answers, or nothing if the listener does not know the secret.
std::optional<Response> respond(const Secret& secret, const Hello& hello, const Challenge& challenge);

// Whether the caller knows the secret.
bool accept(const Secret& secret, const Hello& hello, const Challenge& challenge, const Response& response);

}  // namespace tutti::net
