// The table of engines: who carries out a worker's collectives (collectives/collectives.h), by the names that
// people type.
//
// A new one is a file, with a function that describes it, and a line in engines.inc.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "collectives/collectives.h"
#include "collectives/native.h"
#include "collectives/schedule.h"
#include "net/transport.h"

namespace tutti::engines {

// What a worker tells its engine, beside the transport.
struct EngineOptions {
  std::optional<collectives::Algorithm> algorithm = std::nullopt;  // none: the best for each call
  // A call is given up when nobody in the job has made progress for so long (net/stall.h).
  Clock::duration timeout = std::chrono::seconds(30);
  std::string address = "127.0.0.1";  // where an engine that makes connections of its own listens
  collectives::Hosts hosts = {};      // where the transport's ranks are
};

struct EngineInfo {
  std::string_view name;     // as people write it
  std::string_view summary;  // one line for help
  // Whether --algorithm is for it; else it has algorithms of its own, and ignores EngineOptions::algorithm,
  // which a strategy may ask for.
  bool takes_algorithms = false;
  // Whether what it makes has Collectives::neighbours() where a host has several of several hosts' ranks.
  bool joins_neighbours = false;
  // What whoever lets it run between hosts should know; empty: nothing.
  std::string_view between_hosts = "";
  // Whether only processes that MPI's mpirun has started can use it.
  bool needs_mpirun = false;
  // Why this build or this process cannot use it; empty: it can. nullptr: it always can.
  std::string (*why_not)() = nullptr;
  // A collective call: every rank of the transport makes the same engine. The transport outlives it. Throws
  // PeerLost, Timeout, RunError.
  std::unique_ptr<collectives::Collectives> (*make)(net::Transport&, const EngineOptions&) = nullptr;
};

std::span<const EngineInfo> engines();

// "auto" is the first. Throws ConfigError that lists the names, or says why this one cannot be used here.
const EngineInfo& find_engine(std::string_view name);

// The same for who only wants to know of it: it may be one that cannot be used here.
const EngineInfo& engine_named(std::string_view name);

// "auto | native | ...", for help.
std::string engine_names();

// Throws ConfigError if the engine has algorithms of its own and one was asked for by --algorithm.
void require_fits(const EngineInfo& engine, std::string_view algorithm);

}  // namespace tutti::engines
