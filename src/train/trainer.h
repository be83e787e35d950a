// The training loop of one worker.
#pragma once

#include "net/transport.h"
#include "observe/event.h"
#include "train/prepare.h"

namespace tutti::train {

// Trains to the end of the plan. Every rank of the job calls it with the same setup. Rank 0 emits events and
// writes checkpoints, summary.json and the trace into the run folder; the result is the summary there, null
// on others. Throws PeerLost, Timeout, DataError, RunError.
nlohmann::json train(const Setup& setup, net::Transport& transport, observe::EventSink& sink);

}  // namespace tutti::train
