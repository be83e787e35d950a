// Everyone's flat memory becomes rank 0's.
#pragma once

#include "collectives/collectives.h"
#include "exchange/updater.h"
#include "grad/buckets.h"

namespace tutti::exchange {

// Copies rank 0's numbers to every rank, through the gradients' memory, which is zero after it. `flat` is by
// bucket.
void broadcast_from_first(collectives::Collectives& all, grad::Buckets& buckets,
                          const std::vector<std::span<float>>& flat, std::string_view label);

// Parameters and, if `with_state`, the optimizer's state.
void start_like_first(collectives::Collectives& all, grad::Buckets& buckets, Updater& updater,
                      bool with_state);

}  // namespace tutti::exchange
