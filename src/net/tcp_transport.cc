#include "net/tcp_transport.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>

#include "base/error.h"
#include "base/process.h"

namespace tutti::net {
namespace {

// One call moves at most this much, so that neither direction starves the other. Few large calls beat many
// small ones: each holds the socket's lock, and each read that empties the socket sends an acknowledgement.
constexpr std::size_t kPiece = 4 << 20;

}  // namespace

TcpTransport::TcpTransport(Rank rank, std::vector<Connection> connections, Wire wire,
                           const TransportOptions& options)
    : StreamTransport(rank, static_cast<int>(connections.size()), options),
      connections_(std::move(connections)),
      closed_(connections_.size()) {
  if (wire == Wire::plain) return;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i]) protect(Rank{static_cast<int>(i)}, connections_[i].keys, wire);
  }
}

std::size_t TcpTransport::put(Rank to, const Parts& parts) {
  const auto i = static_cast<std::size_t>(to_int(to));
  TUTTI_CHECK(connections_[i], "rank {} sends to itself", to_int(to));
  std::array<iovec, std::tuple_size_v<Parts>> vectors{};
  std::size_t room = kPiece;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::size_t n = std::min(parts[p].size(), room);
    vectors[p] = {const_cast<std::byte*>(parts[p].data()), n};
    room -= n;
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = vectors.size();
  const ssize_t n = ::sendmsg(socket_of(i), &message, MSG_NOSIGNAL);
  if (n >= 0) return static_cast<std::size_t>(n);
  if (errno != EAGAIN && errno != EINTR) closed_[i] = true;
  return 0;
}

std::size_t TcpTransport::take(Rank from, std::span<std::byte> into) {
  const auto i = static_cast<std::size_t>(to_int(from));
  TUTTI_CHECK(connections_[i], "rank {} receives from itself", to_int(from));
  if (into.empty()) return 0;
  const ssize_t n = ::recv(socket_of(i), into.data(), std::min(into.size(), kPiece), 0);
  if (n > 0) return static_cast<std::size_t>(n);
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) closed_[i] = true;
  return 0;
}

bool TcpTransport::readable(Rank from) {
  const auto i = static_cast<std::size_t>(to_int(from));
  std::byte next{};
  const ssize_t n = ::recv(socket_of(i), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) closed_[i] = true;
  return n > 0;
}

void TcpTransport::wait(const Interest& interest, Clock::duration at_most) {
  std::vector<pollfd> fds(connections_.size(), pollfd{-1, 0, 0});
  const auto watch = [&](Rank r, short events) {
    const auto i = static_cast<std::size_t>(to_int(r));
    fds[i].fd = closed_[i] ? -1 : socket_of(i);
    fds[i].events |= static_cast<short>(events | POLLRDHUP);
  };
  for (const Rank r : interest.to_read) watch(r, POLLIN);
  for (const Rank r : interest.to_write) watch(r, POLLOUT);
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
  if (::poll(fds.data(), fds.size(), static_cast<int>(ms)) <= 0) return;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    // With data still to read the end shows when it has been read.
    if ((fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 && (fds[i].revents & POLLIN) == 0)
      closed_[i] = true;
  }
}

std::optional<Rank> TcpTransport::lost_peer(const Interest& interest) {
  const auto is_closed = [&](Rank r) { return closed_[static_cast<std::size_t>(to_int(r))].load(); };
  for (const auto& ranks : {interest.to_read, interest.to_write}) {
    const auto found = std::ranges::find_if(ranks, is_closed);
    if (found != ranks.end()) return *found;
  }
  return std::nullopt;
}

struct Mesh::State {
  State(Rank r, int world, const Credentials& c, const std::string& address, PortRange ports)
      : rank(r),
        credentials(c),
        connections(static_cast<std::size_t>(world)),
        acceptor(
            io, address, ports, credentials, rank,
            [this](Rank from) {
              return to_int(from) > to_int(rank) &&
                     static_cast<std::size_t>(to_int(from)) < connections.size() &&
                     !connections[static_cast<std::size_t>(to_int(from))];
            },
            [this](Rank from, Tcp::socket socket, const SessionKeys& keys) {
              UniqueFd fd(socket.release());
              prepare_data_socket(fd.get());
              connections[static_cast<std::size_t>(to_int(from))] = {std::move(fd), keys};
            }) {}

  boost::asio::io_context io;
  Rank rank;
  Credentials credentials;
  std::vector<Connection> connections;
  Acceptor acceptor;
};

Mesh::Mesh(Rank rank, int world, const Credentials& credentials, const std::string& address, PortRange ports)
    : state_(std::make_unique<State>(rank, world, credentials, address, ports)) {
  constexpr std::size_t kOthers = 256;  // what a rank has open beside its connections, with room to spare
  allow_descriptors(static_cast<std::size_t>(world) + Acceptor::kPending + kOthers);
}

Mesh::~Mesh() = default;

Endpoint Mesh::endpoint() const {
  const auto e = state_->acceptor.endpoint();
  return {e.address().to_string(), e.port()};
}

std::unique_ptr<TcpTransport> Mesh::connect(const std::vector<Endpoint>& peers,
                                            const TransportOptions& options,
                                            std::uint64_t* rejected_connections) {
  State& s = *state_;
  TUTTI_CHECK(peers.size() == s.connections.size());
  const auto deadline = Deadline::in(options.timeout);
  const auto self = static_cast<std::size_t>(to_int(s.rank));
  for (std::size_t i = 0; i < self; ++i) {
    s.connections[i] = dial(peers[i], s.credentials, s.rank, Rank{static_cast<int>(i)}, deadline);
  }
  for (std::size_t i = self + 1; i < peers.size(); ++i) {
    while (!s.connections[i]) {
      if (deadline.passed())
        throw Timeout({s.rank, Rank{static_cast<int>(i)}, "connecting", deadline.waited()});
      s.io.run_one_for(deadline.left());
    }
  }
  s.acceptor.close();
  if (rejected_connections != nullptr) *rejected_connections = s.acceptor.rejected_connections();
  s.io.poll();
  return std::make_unique<TcpTransport>(s.rank, std::move(s.connections), s.credentials.terms.wire, options);
}

}  // namespace tutti::net
