// What a worker process is told, and how it tells back.
//
// The launcher writes a job description into an anonymous memory file and lets the worker inherit the
// descriptor: the secret is never in arguments, environment or on disk. The worker reports events, and at its
// end why it failed, as lines of JSON through an inherited pipe.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/port_range.h"
#include "net/auth.h"
#include "net/dial.h"
#include "net/transport.h"
#include "observe/jsonl_sink.h"
#include "rendezvous/meeting.h"

namespace tutti::launch {

struct WorkerJob {
  Rank rank{};
  int world = 1;
  int workers = 1;         // ranks below it; the others are servers
  std::vector<int> hosts;  // by rank: the number of the host that it is on
  std::string task;        // which of the program's tasks, e.g. "train"
  nlohmann::json payload;  // what the task needs
  net::Secret secret{};
  // What all ranks have alike, where descriptions differ by host; else it is made of this one.
  std::optional<Digest> digest = {};
  std::string transport;              // "shm", "tcp" or "mpi"
  net::Wire wire = net::Wire::plain;  // of tcp
  int segment_fd = -1;                // the shared memory, for shm
  int local_segment_fd = -1;          // that of this host's workers, beside tcp
  net::Endpoint rendezvous;           // for tcp
  std::string address;                // where the rank listens, for tcp
  PortRange ports = {};               // and on one of these
  // For mpi. It is this process's, and in no description: who starts processes with one has other transports.
  std::shared_ptr<const rendezvous::Connector> connector = nullptr;
  int board_fd = -1;  // where all ranks show how they are (net/status_board.h)
  int report_fd = -1;
  std::chrono::milliseconds timeout{30'000};
  bool survives_workers = false;  // as in JobSpec
  bool shows_life = true;         // likewise
  bool own_core = false;          // nobody else needs the core that waits: a short spin beats a sleep
  bool operator==(const WorkerJob&) const = default;
};

// What tells a program of others, in its environment, which descriptor holds the description.
inline constexpr const char* kJobVariable = "TUTTI_JOB_FD";

// Writes the description to a memory file for a child to inherit. Throws RunError.
UniqueFd write_job(const WorkerJob& job);

// What all ranks of a job have alike, for their handshakes (net/auth.h): what it runs, with which settings,
// among how many.
Digest digest_of(const WorkerJob& job);
net::Credentials credentials_of(const WorkerJob& job);

// As JSON has them, byte by byte; nothing if they are not as many as they must be.
nlohmann::json bytes_to_json(std::span<const std::byte> bytes);
std::optional<Digest> digest_from_json(const nlohmann::json& json);

// Reads and closes it. Throws ConfigError if the descriptor holds none.
WorkerJob read_job(int fd);

// An inherited descriptor once more, for this process alone. The first stays open: another rank of this
// process may need it, too. Throws RunError.
UniqueFd duplicate(int fd);

// What all ranks show of themselves; the launcher's, mapped once more. Throws RunError.
net::StatusBoard open_board(const WorkerJob& job);

// Takes the worker's place among its peers. Blocks until all have come. Connections that were refused
// meanwhile are counted in `report`, under kRejectedConnections. Throws Timeout, PeerLost, AuthError.
std::unique_ptr<net::Transport> connect(const WorkerJob& job, observe::JsonlSink& report);
// The workers of this rank's host, in ascending order.
std::vector<Rank> workers_of_host(const WorkerJob& job);
// The same workers in shared memory beside tcp, ranked in that order; failures name them by their ranks in
// the job. Null where there is none: on servers, where a worker is alone on its host, where all ranks share
// one host and nobody asked (JobSpec::local_memory). Blocks and throws as connect(); all workers of a host
// call it.
std::unique_ptr<net::Transport> connect_neighbours(const WorkerJob& job);
inline constexpr const char* kRejectedConnections = "rejected_connections";

// Why a worker failed, as it travels to the launcher.
struct Failure {
  enum class Kind { run, usage, peer_lost, timeout, nonfinite };
  Kind kind = Kind::run;
  std::string what;
  std::optional<PeerFault> fault;  // of peer_lost and timeout
};

Failure failure_of(const std::exception& e);
// What the worker exits with: 2 for what the user gave us, 1 for what happened.
int exit_code_of(const Failure& failure);
nlohmann::json to_json(const Failure& failure);
Failure failure_from_json(const nlohmann::json& json);

}  // namespace tutti::launch
