// Processes that somebody else has started (mpirun, srun, torchrun) and that do not reach each other yet: all
// they can do is tell each other a text. launch/join.h makes a job of ours out of that.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rank.h"
#include "net/stream_transport.h"

namespace tutti::rendezvous {

// Makes the transport of a rank that lives in this process. Called by the rank's own thread.
using Connector =
    std::function<std::unique_ptr<net::Transport>(Rank rank, const net::TransportOptions& options)>;

// One thread uses it.
class Meeting {
 public:
  virtual ~Meeting() = default;

  virtual Rank rank() const = 0;
  virtual int world() const = 0;

  // Everyone's text, by rank. Every process calls it as often as the others; blocks until all have. Only
  // those who are in the meeting read the texts: a job's secret may be among them. Throws RunError.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;

  // Under which the others reach this host, in digits; empty where the meeting does not know.
  virtual std::string address() const { return {}; }

  // How a job's messages travel where the meeting's own do: for the ranks of a job whose processes, by rank,
  // are these. A collective call. Throws ConfigError, the same on every process, where the meeting carries
  // none.
  virtual Connector connector(const std::vector<int>& process_of) {
    static_cast<void>(process_of);
    throw ConfigError(
        "--transport mpi is for processes that the mpirun of the MPI which is linked has started");
  }

  // All went well: takes leave of whoever has started us. A process that fails does not call it, and is
  // noticed by that. Throws RunError.
  virtual void finish() {}
};

}  // namespace tutti::rendezvous
