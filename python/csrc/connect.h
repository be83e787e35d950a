// Connects the ranks of a process group: in shared memory where all of them are on one host, else over TCP,
// with shared memory beside it for those of a host.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "net/transport.h"
#include "store_meeting.h"

namespace tutti::torch_backend {

// The environment's part in it, read in one place.
struct ConnectOptions {
  std::chrono::milliseconds timeout{};
  // TUTTI_TRANSPORT: auto | shm | tcp.
  std::string transport = "auto";
  // TUTTI_ADDRESS: where this process listens, an address of this host. Empty: loopback where all ranks are
  // on one host, else the address by which MASTER_ADDR is reached.
  std::string address;
  // MASTER_ADDR.
  std::string master;
  // TUTTI_SECRET_FILE: a file that only its owner can read and whose content all ranks share. Empty: rank 0
  // draws a secret and the store carries it.
  std::string secret_file;
};

// Throws ConfigError.
ConnectOptions options_from_environment(std::chrono::milliseconds timeout);

// The ways between the ranks, each used by itself.
struct Links {
  std::unique_ptr<net::Transport> collectives;
  std::unique_ptr<net::Transport> messages;   // survives the loss of peers
  std::unique_ptr<net::Transport> exchanges;  // only in shared memory, of Exchange::kArenaBytes
  // By rank, a number that those of one host share, and those of this one's in shared memory, where there are
  // several hosts (collectives::Hosts).
  std::vector<int> hosts = {};
  std::unique_ptr<net::Transport> neighbours = nullptr;
};

// Every rank calls it. Blocks until all are connected. Throws RunError, Timeout, PeerLost, AuthError,
// ConfigError.
Links connect(StoreMeeting& meeting, const ConnectOptions& options);

}  // namespace tutti::torch_backend
