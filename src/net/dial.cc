#include "net/dial.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "base/error.h"

namespace tutti::net {
namespace {

constexpr std::string_view kConnecting = "connecting";

void wait_for(int fd, short events, Rank self, Rank peer, std::string_view doing, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    if (left == 0) throw Timeout({self, peer, std::string(doing), deadline.waited()});
    pollfd p{fd, events, 0};
    const int n = ::poll(&p, 1, static_cast<int>(left));
    if (n > 0) return;
    if (n < 0 && errno != EINTR) throw_errno("poll");
  }
}

// Connected, or an empty descriptor if nobody listens (yet).
UniqueFd connect_once(const Endpoint& where, Rank self, Rank to, Deadline deadline) {
  sockaddr_storage storage{};
  socklen_t length = 0;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (::inet_pton(AF_INET, where.host.c_str(), &v4->sin_addr) == 1) {
    storage.ss_family = AF_INET;
    v4->sin_port = htons(where.port);
    length = sizeof *v4;
  } else if (::inet_pton(AF_INET6, where.host.c_str(), &v6->sin6_addr) == 1) {
    storage.ss_family = AF_INET6;
    v6->sin6_port = htons(where.port);
    length = sizeof *v6;
  } else {
    throw ConfigError(fmt::format("'{}' is not an address", where.host));
  }
  UniqueFd fd(::socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw_errno("socket");
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0) {
    if (errno != EINPROGRESS) return {};
    wait_for(fd.get(), POLLOUT, self, to, kConnecting, deadline);
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return {};
  }
  return fd;
}

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

void prepare_data_socket(int fd) {
  const int on = 1;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) throw_errno("fcntl");
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
      ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) != 0) {
    throw_errno("setsockopt");
  }
  // Systems that default to BBR pace what they send by a clock; between hosts of a cluster, and on loopback,
  // that more than halves the rate of an exchange. Where cubic is not to be had the default stays.
  constexpr std::string_view kCongestionControl = "cubic";
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kCongestionControl.data(), kCongestionControl.size());
}

void read_exactly(int fd, std::span<std::byte> into, Rank self, Rank peer, std::string_view doing,
                  Deadline deadline) {
  while (!into.empty()) {
    const ssize_t n = ::recv(fd, into.data(), into.size(), 0);
    if (n > 0) {
      into = into.subspan(static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {
      wait_for(fd, POLLIN, self, peer, doing, deadline);
    } else if (n == 0 || errno != EINTR) {
      throw PeerLost({self, peer, std::string(doing), deadline.waited()});
    }
  }
}

void write_exactly(int fd, std::span<const std::byte> bytes, Rank self, Rank peer, std::string_view doing,
                   Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      wait_for(fd, POLLOUT, self, peer, doing, deadline);
    } else if (errno != EINTR) {
      throw PeerLost({self, peer, std::string(doing), deadline.waited()});
    }
  }
}

namespace {

// One attempt. Empty if nobody listens yet, or if the listener closed before it decided: a flood of strangers
// may push an honest caller out.
Connection dial_once(const Endpoint& where, const Credentials& ours, Rank self, Rank to, Deadline deadline) {
  Connection made{connect_once(where, self, to, deadline), {}};
  if (!made) return {};
  const int fd = made.fd.get();
  const auto who = fmt::format("rank {}: {}:{}", to_int(self), where.host, where.port);
  Hello hello = make_hello(self, to);
  Challenge challenge;
  Welcome welcome;
  try {
    write_exactly(fd, bytes_of(hello), self, to, "authentication", deadline);
    // A refusal ends where the terms would begin.
    const auto received = bytes_of(challenge);
    read_exactly(fd, received.first(sizeof(Refusal)), self, to, "authentication", deadline);
    if (const auto version = refused_by(challenge)) {
      throw ProtocolError(fmt::format("{} speaks version {} of the protocol, this program {}", who, *version,
                                      kProtocolVersion));
    }
    read_exactly(fd, received.subspan(sizeof(Refusal)), self, to, "authentication", deadline);
    auto response = respond(ours.secret, hello, challenge);
    if (!response) throw AuthError(who + " does not know the job's secret");
    if (const auto what = disagreement(terms_of(ours.secret, hello, challenge), ours.terms))
      throw ProtocolError(fmt::format("{} has other terms: {}", who, *what));
    write_exactly(fd, bytes_of(*response), self, to, "authentication", deadline);
    read_exactly(fd, bytes_of(welcome), self, to, "authentication", deadline);
  } catch (const PeerLost&) {
    return {};
  }
  if (welcome.accepted != 1) throw AuthError(who + " has this rank already, or does not expect it");
  prepare_data_socket(fd);
  made.keys = keys_of_caller(ours.secret, hello, challenge);
  return made;
}

}  // namespace

Connection dial(const Endpoint& where, const Credentials& credentials, Rank self, Rank to,
                Deadline deadline) {
  Connection made;
  try {
    while (!(made = dial_once(where, credentials, self, to, deadline))) {
      if (deadline.passed()) throw Timeout({self, to, std::string(kConnecting), deadline.waited()});
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // there is nothing to wait on
    }
  } catch (const Timeout& e) {
    PeerFault fault = e.fault;
    fault.address = fmt::format("{}:{}", where.host, where.port);
    throw Timeout(std::move(fault));
  }
  return made;
}

}  // namespace tutti::net
