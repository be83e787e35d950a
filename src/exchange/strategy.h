// Strategies by the names that people type.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collectives/communicator.h"
#include "exchange/exchange.h"
#include "exchange/updater.h"
#include "observe/trace.h"

namespace tutti::exchange {

struct Strategy {
  std::string_view name;
  std::string_view summary;
  bool one_worker_only = false;
};

std::span<const Strategy> all_strategies();

// Throws ConfigError that lists the names.
const Strategy& find_strategy(std::string_view name);

// The collective algorithm that a strategy and --algorithm ask for; none: whatever is best. Throws
// ConfigError if the two do not fit.
std::optional<collectives::Algorithm> algorithm_of(const Strategy& strategy, std::string_view algorithm);

// What the exchange works with. All of it outlives the exchange.
struct Parts {
  grad::Buckets& buckets;
  Updater& updater;
  collectives::Communicator& all;
  observe::Trace& trace;
};

std::unique_ptr<Exchange> make_exchange(const Strategy& strategy, const Parts& parts);

// One line for people: what moves the gradients of this size in this world, and why.
std::string describe(const Strategy& strategy, const collectives::Communicator& all,
                     std::uint64_t bucket_bytes);

// Copies rank 0's numbers to every rank, through the gradients' memory. `flat` is by bucket.
void broadcast_from_first(collectives::Communicator& all, grad::Buckets& buckets,
                          const std::vector<std::span<float>>& flat, std::string_view label);

}  // namespace tutti::exchange
