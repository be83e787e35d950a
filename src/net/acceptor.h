// The listening end: takes connections, lets in only those that prove the secret, counts the others.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "base/port_range.h"
#include "net/auth.h"

namespace tutti::net {

using Tcp = boost::asio::ip::tcp;

// Runs on the io_context it is given and on the one thread that runs that. A connection that has not proven
// itself holds a few hundred bytes, at most kHandshakeTime long, at most `pending` of them at once, or as
// many as this process may have open; the oldest goes first.
class Acceptor {
 public:
  static constexpr auto kHandshakeTime = std::chrono::seconds(5);
  static constexpr std::size_t kPending = 256;

  // Whether a rank that proved the secret may come in; a second caller for one rank may not.
  using Admission = std::function<bool(Rank from)>;
  // Receives each one that came in, with the keys of its connection.
  using Entry = std::function<void(Rank from, Tcp::socket socket, const SessionKeys& keys)>;

  // Listens on address, on the first port of the range that is free. `pending` leaves room for all honest
  // callers that may come at once, and is what strangers who say nothing can take. Throws RunError that names
  // the address.
  Acceptor(boost::asio::io_context& io, const std::string& address, PortRange ports,
           const Credentials& credentials, Rank self, Admission admit, Entry enter,
           std::size_t pending = kPending);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  Tcp::endpoint endpoint() const;

  // How many were closed because they sent something else, knew another secret, spoke another
  // version, had another job in mind, or were too slow.
  std::uint64_t rejected_connections() const;

  // No more callers; pending ones are closed.
  void close();

 private:
  struct Shared;
  class Session;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tutti::net
