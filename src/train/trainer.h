// The training loop of one worker.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/native.h"
#include "net/transport.h"
#include "observe/event.h"
#include "observe/summary.h"
#include "train/prepare.h"

namespace tutti::train {

// Trains to the end of the plan. Every worker of the job calls it with the same setup; `everyone` are workers
// and servers. Rank 0 emits events and writes checkpoints, summary.json and the trace into the run folder;
// the result is the summary there; none on others, and where the run was stopped. `hosts` says
// where everyone is, and how the workers of this host reach each other there; `address` where this process
// may listen. Throws PeerLost, Timeout, DataError, RunError.
std::optional<observe::Summary> train(const Setup& setup, net::Transport& everyone, observe::EventSink& sink,
                                      const collectives::Hosts& hosts = {},
                                      const std::string& address = "127.0.0.1");

// What a rank behind the workers does: holds parameters until the last worker has said goodbye. Throws
// PeerLost, Timeout, ConfigError.
void serve(const Setup& setup, net::Transport& everyone, const std::vector<int>& hosts = {});

}  // namespace tutti::train
