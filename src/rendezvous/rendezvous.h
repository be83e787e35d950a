// How ranks that do not know each other's addresses find each other.
//
// The launcher runs one Rendezvous. Each rank connects, proves the secret, says where it listens, and gets
// the list of all once all have come. The port stays open, and guarded, as long as the job runs: a stranger
// is closed and counted.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "net/acceptor.h"
#include "net/dial.h"

namespace tutti::rendezvous {

// Runs on the io_context it is given, on the one thread that runs that.
class Rendezvous {
 public:
  // Listens on `address`, on one of the ports. Throws RunError.
  Rendezvous(boost::asio::io_context& io, const std::string& address, int world,
             const net::Credentials& credentials, PortRange ports = {});
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  net::Endpoint endpoint() const;

  // Takes no more callers and closes all connections; the count stays.
  void close();

  // Connections closed because they could not prove the secret or broke the rules after it.
  std::uint64_t rejected_connections() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A rank's side: announces `mine` and returns every rank's endpoint. Blocks until all have come. Throws
// Timeout, PeerLost, AuthError, and ProtocolError where the rendezvous is of another version or job, or
// where what it sent was altered on its way.
std::vector<net::Endpoint> join(const net::Endpoint& rendezvous, const net::Credentials& credentials,
                                Rank self, int world, const net::Endpoint& mine, Deadline deadline);

}  // namespace tutti::rendezvous
