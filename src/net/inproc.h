// Ranks as threads of this process: for tests, for benchmarks without processes, for a library user's first
// try.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "net/stream_transport.h"

namespace tutti::net {

// sealed_sockets and encrypted_sockets are sockets whose frames carry tags (net/wire.h).
enum class Medium { memory, sockets, sealed_sockets, encrypted_sockets };

// Runs body on `world` threads, each with its rank's transport: over shared memory, or over TCP connections
// on loopback. Returns when all have ended; rethrows the exception of the lowest rank that threw.
void run_as_threads(Medium medium, int world, Clock::duration timeout,
                    const std::function<void(Transport&)>& body);
void run_as_threads(Medium medium, int world, const TransportOptions& options,
                    const std::function<void(Transport&)>& body);

// The same over sockets, with the first ranks on these hosts, by rank: those that share one also share
// memory, as a transport of their own, ranked in their order; null for a rank that is alone.
void run_on_hosts(const std::vector<int>& hosts, int world, Clock::duration timeout,
                  const std::function<void(Transport& all, Transport* neighbours)>& body);

}  // namespace tutti::net
