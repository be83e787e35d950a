// The calling end: connect, prove, be welcomed. Blocking, with a deadline.
#pragma once

#include "base/deadline.h"
#include "base/file.h"
#include "net/acceptor.h"

namespace tutti::net {

// Where a rank listens.
struct Endpoint {
  std::string host;  // an address in digits
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

// To a rank that has proven the secret: a socket, and the keys that only its two ends have.
struct Connection {
  UniqueFd fd;
  SessionKeys keys;
  explicit operator bool() const { return static_cast<bool>(fd); }
};

// A connected, authenticated socket, non-blocking and without delay. Retries while nobody listens yet or
// the listener drops us undecided. Throws Timeout naming `to` and the address, AuthError if the listener does
// not know the secret or turns us away, ProtocolError naming both versions, or both terms, if it has others
// than we.
Connection dial(const Endpoint& where, const Credentials& credentials, Rank self, Rank to, Deadline deadline);

// Exactly these bytes over a non-blocking socket. Throws Timeout, PeerLost.
void read_exactly(int fd, std::span<std::byte> into, Rank self, Rank peer, std::string_view doing,
                  Deadline deadline);
void write_exactly(int fd, std::span<const std::byte> bytes, Rank self, Rank peer, std::string_view doing,
                   Deadline deadline);

// What every data socket gets: non-blocking, no delay, no pacing, closed on exec.
void prepare_data_socket(int fd);

}  // namespace tutti::net
