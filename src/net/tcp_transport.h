// The transport between hosts: one authenticated TCP connection a pair of ranks.
#pragma once

#include "net/dial.h"
#include "net/stream_transport.h"

namespace tutti::net {

class TcpTransport final : public StreamTransport {
 public:
  // `connections` by rank, their sockets prepared; the one at our own rank is empty.
  TcpTransport(Rank rank, std::vector<Connection> connections, Wire wire, const TransportOptions& options);

  PeerMemory* peer_memory() override { return nullptr; }

 private:
  std::size_t put(Rank to, const Parts& parts) override;
  std::size_t take(Rank from, std::span<std::byte> into) override;
  bool readable(Rank from) override;
  void wait(const Interest& interest, Clock::duration at_most) override;
  std::optional<Rank> lost_peer(const Interest& interest) override;

  int socket_of(std::size_t rank) const { return connections_[rank].fd.get(); }

  std::vector<Connection> connections_;
  std::vector<std::atomic<bool>> closed_;  // by rank: the connection has ended
};

// A rank's listening end before the others know where it is.
class Mesh {
 public:
  // Listens on `address`, on one of the ports, for ranks above `rank`. Connections are protected as the
  // credentials' terms say. Throws RunError.
  Mesh(Rank rank, int world, const Credentials& credentials, const std::string& address,
       PortRange ports = {});
  ~Mesh();

  Endpoint endpoint() const;

  // Calls every rank below, takes in every rank above, stops listening. The transport's time-out is this
  // call's, too. `rejected_connections`, if given, receives how many connections were refused. Throws
  // Timeout, PeerLost, AuthError, and ProtocolError where a rank has another version or other terms.
  std::unique_ptr<TcpTransport> connect(const std::vector<Endpoint>& peers, const TransportOptions& options,
                                        std::uint64_t* rejected_connections = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti::net
