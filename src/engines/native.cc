#include "collectives/native.h"

#include "engines/engines.h"

namespace tutti::engines {
namespace {

std::unique_ptr<collectives::Collectives> make_native(net::Transport& transport,
                                                      const EngineOptions& options) {
  return std::make_unique<collectives::NativeEngine>(transport, options.algorithm, options.hosts);
}

}  // namespace

EngineInfo native() {
  return {.name = "native",
          .summary = "our own: in place in shared memory, by schedules over TCP",
          .takes_algorithms = true,
          .joins_neighbours = true,
          .make = make_native};
}

}  // namespace tutti::engines
