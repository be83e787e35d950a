// Who may speak: mutual challenge and response over the job's secret, with no I/O in it.
//
//   caller                                    listener
//   Hello  {magic, version, from, to, nonce}  ->
//                      <-  Challenge {nonce, HMAC(secret, "listener" + transcript), terms}
//   Response {HMAC(secret, "caller" + transcript)}  ->
//                      <-  Welcome {accepted}
//
// or, where the hello is of another version,
//                      <-  Refusal {magic, version}
//
// The transcript is what the hello claims, both nonces and the terms, so a proof fits one connection, one
// direction and one pair of ranks. Every message has a fixed size: nothing that a stranger sends decides how
// much is read or stored.
//
// The terms are what ranks of a job must agree on. The caller holds the listener's against its own, and
// where they differ it ends and can name both, after one round trip. They are proven by the challenge and
// masked by a key that only who knows the secret can make: a stranger who asks gets noise.
//
// Both ends make the keys of their connection from the secret and the transcript (HKDF-SHA-256), one a
// direction. They are good for this connection only and tell nothing about the secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "base/crypto.h"
#include "base/rank.h"
#include "net/wire.h"

namespace tutti::net {

// 256 bits that the launcher draws for each job and hands to workers through an inherited descriptor.
using Secret = Digest;
using Nonce = Digest;

Secret make_secret();

// What this program speaks. Whatever a version changes, a Hello stays 56 bytes long with magic and version
// where they are, and a Refusal as it is: how else could two versions tell each other.
constexpr std::uint32_t kProtocolVersion = 2;

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

// What both ends must have alike.
struct Terms {
  // Of the job: what it computes, with which settings. Zeros: not said, and fits every other.
  Digest job{};
  Wire wire = Wire::plain;
  std::uint32_t reserved = 0;
  bool operator==(const Terms&) const = default;
};
static_assert(sizeof(Terms) == 40);

// What differs, with both values: "the job is 12ab... there and 34cd... here". Nothing if they fit.
std::optional<std::string> disagreement(const Terms& theirs, const Terms& ours);

// Whoever has this is in the job.
struct Credentials {
  Credentials() = default;
  Credentials(const Secret& s, const Terms& t = {}) : secret(s), terms(t) {}
  Secret secret{};
  Terms terms{};
};

struct Challenge {
  Nonce nonce{};
  Digest proof{};
  Terms terms{};  // masked
};

// In a Challenge's place, and as long as one was in version 1: a program that knows no refusal takes it for a
// challenge that does not prove the secret, and stops. It is the same for everybody and tells nothing but the
// version.
struct Refusal {
  std::array<char, 8> magic = {'T', 'U', 'T', 'T', 'I', '?', '\n', '\0'};
  std::uint32_t version = kProtocolVersion;
  std::array<std::byte, 52> zeros{};
  bool operator==(const Refusal&) const = default;
};
static_assert(sizeof(Refusal) == offsetof(Challenge, terms));

struct Response {
  Digest proof{};
};

struct Welcome {
  std::uint64_t accepted = 1;
};

Hello make_hello(Rank from, Rank to);

// What the listener answers, or nothing if the hello is none of ours (other magic, version or addressee).
std::optional<Challenge> answer(const Credentials& listener, const Hello& hello, Rank self);

// What the listener answers a hello of another version, and only that.
std::optional<Refusal> refuse(const Hello& hello);

// The listener's version, if what came in a challenge's place is a refusal. Only the bytes before the terms
// are looked at: a refusal has no others.
std::optional<std::uint32_t> refused_by(const Challenge& received);

// What the caller answers, or nothing if the listener does not know the secret.
std::optional<Response> respond(const Secret& secret, const Hello& hello, const Challenge& challenge);

// The listener's terms, once respond() has found the challenge to be its own.
Terms terms_of(const Secret& secret, const Hello& hello, const Challenge& challenge);

// Whether the caller knows the secret.
bool accept(const Secret& secret, const Hello& hello, const Challenge& challenge, const Response& response);

// The keys of the connection that these two have opened.
SessionKeys keys_of_caller(const Secret& secret, const Hello& hello, const Challenge& challenge);
SessionKeys keys_of_listener(const Secret& secret, const Hello& hello, const Challenge& challenge);

}  // namespace tutti::net
