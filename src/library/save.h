// Writes a checkpoint of a training (checkpoint/checkpoint.h):
//
//   rank 0   model.safetensors, optimizer.safetensors: what all processes have in common
//   rank r   replica-r.safetensors: its buffers; where replicas differ between synchronisations, all that it
//   has
//
// Rank 0 puts the parts together when all of them are there.
#pragma once

#include <cstdint>
#include <string>

#include "library/trained.h"

namespace tutti::library {

struct SaveRequest {
  std::string folder;
  std::int64_t steps = 0;  // that this process brought gradients to
  bool in_step = false;    // gradients of a step have left: refused
  bool finished = false;   // the exchange is: rank 0's updater has all there is to know
};

// A collective call. Where it fails in one process all throw (library/agree.h), ConfigError, NonFinite or
// RunError; there is no new checkpoint then, the older ones are whole and the training is as it was.
void save(const Trained& trained, const SaveRequest& request);

}  // namespace tutti::library
