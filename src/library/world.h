// Another world of processes that already reach each other: connected apart from the one they have, so that
// both can be used at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/port_range.h"
#include "collectives/collectives.h"
#include "net/auth.h"
#include "net/stream_transport.h"

namespace tutti::library {

// Where the processes of a world are in the job that they belong to.
struct InJob {
  std::vector<int> hosts = {};   // by process; empty: all are on one
  std::vector<Rank> ranks = {};  // likewise, its rank in the job; empty: it is the same
  // What the ranks of the job show, which agents tell from host to host; null: nobody does.
  std::shared_ptr<const net::StatusBoard> board = nullptr;

  bool on_several_hosts() const;
};

// What a process needs to connect.
struct ConnectOptions {
  net::Secret secret{};                // the job's
  std::string address = "127.0.0.1";   // where this process listens, for TCP
  net::TransportOptions options = {};  // the board is each world's own
  net::Wire wire = net::Wire::plain;   // what protects TCP connections
  PortRange ports = {};                // of which it listens on one
};

// Seats 0 to N - 1 are those of the N processes, and behind them are `servers` more, of which process r has
// the seat N + r. In shared memory where the processes share theirs, else over TCP.
class World {
 public:
  virtual ~World() = default;

  // Takes one of this process's seats. Blocks until all of the world are taken, so a process with two takes
  // each on a thread of its own. Throws Timeout, PeerLost, AuthError.
  virtual std::unique_ptr<net::Transport> take_seat(Rank seat) = 0;

  // This process's way to those of its host in shared memory, where there are several hosts; null where it is
  // alone on its own (collectives::Hosts). Blocks until all of the host have called it; throws likewise.
  virtual std::unique_ptr<net::Transport> take_seat_among_neighbours() { return nullptr; }
};

// A collective call of the processes of `all`, which are where `in_job` says.
std::unique_ptr<World> make_world(collectives::Collectives& all, bool shares_memory, int servers,
                                  const ConnectOptions& connection, const InJob& in_job);

}  // namespace tutti::library
