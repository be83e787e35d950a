// A parameter server: holds pieces of the model, updates them from gradients, hands them out again.
//
// One thread receives and updates, one sends. Between ranks that share memory gradients are read where
// backward left them and parameters where the server keeps them; otherwise both travel.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "net/transport.h"
#include "optim/settings.h"
#include "ps/ledger.h"

namespace tutti::ps {

// What a server hands out: parameters that it has updated, or the mean of the gradients, for workers that
// update their own.
enum class Role { update, mean };

struct ServerOptions {
  int workers = 1;       // ranks 0 to workers - 1 push and pull
  int first_server = 1;  // rank of the first server
  int servers = 1;       // the others follow it
  Policy policy = {};
  Role role = Role::update;
  optim::Settings optimizer = {};
  // Sync: a global batch has so many shards, whose gradients are added up in the order of their tree
  // (base/shard_tree.h); each worker brings the sums of its own. 0: each worker brings one gradient.
  int shards = 0;
  bool damp_stale = false;  // async: the learning rate is divided by a gradient's staleness
  Clock::duration timeout = std::chrono::seconds(30);
  std::uint32_t incarnation =
      0;  // how often the job was started before: a push of an earlier life is not heard
  bool survives_workers = false;  // a worker that dies is dropped, and the others go on
};

struct ServerReport {
  std::uint64_t parameter_bytes = 0;  // held here
  std::uint64_t bytes_sent = 0;
  std::int64_t applied = 0;   // gradients of pieces that became part of an update
  std::int64_t dropped = 0;   // came too late
  std::int64_t repeated = 0;  // came twice
  std::int64_t max_lead = 0;  // pushes that a worker was ahead of the slowest when it was let go on
  std::map<std::int64_t, std::int64_t> staleness;  // versions behind -> gradients
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ServerReport, parameter_bytes, bytes_sent, applied, dropped, repeated,
                                   max_lead, staleness)

// Serves until every worker has said goodbye for good. What is held, the workers say (ps/contents.h); between
// two goodbyes that announce a return they may begin anew with other contents. Returns the last session's
// report. Throws ConfigError if a worker's description differs (naming
// both values), PeerLost, Timeout (naming the worker that others wait for), ProtocolError.
ServerReport serve(net::Transport& transport, const ServerOptions& options);

}  // namespace tutti::ps
