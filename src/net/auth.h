// Who may speak: mutual challenge and response over the job's secret, with no I/O in it.
//
//   caller                                    listener
//   Hello  {magic, version, from, to, nonce}  ->
//                      <-  Challenge {nonce, HMAC(secret, "listener" + transcript)}
//   Response {HMAC(secret, "caller" + transcript)}  ->
//                      <-  Welcome {accepted}
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

// The listener that is no rank: the job's rendezvous.
constexpr Rank kRendezvous{-1};

struct Hello {
  std::array<char, 8> magic = {'T', 'U', 'T', 'T', 'I', '\r', '\n', '\0'};
  std::uint32_t version = 1;
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

struct Response {
  Digest proof{};
};

struct Welcome {
  std::uint64_t accepted = 1;
};

Hello make_hello(Rank from, Rank to);

// What the listener answers, or nothing if the hello is none of ours (other magic, version or addressee).
std::optional<Challenge> answer(const Secret& secret, const Hello& hello, Rank self);

// What the caller answers, or nothing if the listener does not know the secret.
std::optional<Response> respond(const Secret& secret, const Hello& hello, const Challenge& challenge);

// Whether the caller knows the secret.
bool accept(const Secret& secret, const Hello& hello, const Challenge& challenge, const Response& response);

}  // namespace tutti::net
