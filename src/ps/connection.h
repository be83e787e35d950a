// A worker's connection to its parameter servers, from hello to goodbye.
//
//   Connection connection(transport, options, contents);
//   PieceClient pieces(connection, buckets);  // the parameters that lie in buckets
//   RowClient rows(connection, tables);       // the rows of embedding tables
//   ...
//   connection.leave();                       // no more pushes
//   reports = connection.say_goodbye();
//
// A worker makes the clients that it has a use for, one of a kind. They are declared behind the connection:
// the first of them that goes ends its threads (ps/requests.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "net/transport.h"
#include "ps/contents.h"
#include "ps/layout.h"
#include "ps/requests.h"

namespace tutti::ps {

class Connection {
 public:
  // Introduces itself to all servers; blocks until they have compared what all workers say. The options and
  // the transport outlive it. Throws PeerLost, Timeout.
  Connection(net::Transport& transport, const ServerOptions& options, Contents contents);

  // These block, and are called while nothing is under way. Throw PeerLost, Timeout.
  // No more pushes of this worker.
  void leave();
  // The last word to each server; its report is the answer. With `another_follows` the servers wait for the
  // next connection.
  std::vector<ServerReport> say_goodbye(bool another_follows = false);

  // Gradients, row numbers and the headers of rows, by all clients.
  std::uint64_t bytes_sent() const { return requests_.bytes_sent(); }
  // How long something was under way since it was last asked.
  Clock::duration take_busy_time() { return requests_.take_busy_time(); }

  // For the clients.
  net::Transport& transport() const { return transport_; }
  const ServerOptions& options() const { return options_; }
  const Contents& contents() const { return contents_; }
  const Layout& layout() const { return layout_; }
  Requests& requests() { return requests_; }
  Rank rank_of(int server) const { return Rank{options_.first_server + server}; }
  // Asks a server for a slot of the optimizer's state, and waits for it. While nothing is under way.
  void fetch_state(Verb verb, std::uint32_t id, int server, std::uint32_t slot, std::span<float> into);

 private:
  net::Transport& transport_;
  const ServerOptions& options_;
  const Contents contents_;
  const Layout layout_;
  const std::vector<Rank> servers_;
  Requests requests_;
};

}  // namespace tutti::ps
