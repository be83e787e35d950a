// Starts a job's processes on this host, watches them, and stops them all when one fails.
//
// Nothing outlives the launcher: workers die with it (PR_SET_PDEATHSIG), shared memory has no name, and every
// way out of run() has waited for every child.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/port_range.h"
#include "launch/diagnose.h"

namespace tutti::launch {

// Where a process lives: by default here, on loopback.
struct Place {
  int network = -1;  // descriptor of a network namespace
  std::string address = "127.0.0.1";
  int host = 0;  // processes with the same number can share memory
};

struct JobSpec {
  std::string program;  // what to run; it gets "worker --job-fd N" as arguments
  // Instead of it a program of others, as a path, with its arguments. It is told its place by kJobVariable
  // and by torchrun's RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE, and may show life or not.
  std::vector<std::string> command = {};
  std::vector<std::string> environment = {};  // for all processes, as SpawnOptions has it (launch/spawn.h)
  int workers = 1;                            // ranks 0 to workers - 1, a process each
  int servers = 0;                            // the ranks after them
  bool colocate = false;                      // servers live in the workers' processes, which take both ranks
  // Over "tcp" the workers of a host share memory beside it where there are several hosts; this is to have it
  // on a single one, too.
  bool local_memory = false;
  std::string task;
  nlohmann::json payload;
  std::string transport = "shm";  // "shm" or "tcp"
  // What protects the connections of "tcp": "plain", "auth", "encrypt", or "auto", by where the places are
  // (net/wire.h).
  std::string wire = "auto";
  // That ranks listen on over "tcp", by name or address; empty: as the places say. Hosts may share a name.
  std::string interface = {};
  PortRange ports = {};  // that they listen on
  // A rank that makes no progress for so long, and waits for nobody, is stuck (launch/watch.h).
  Clock::duration timeout = std::chrono::seconds(30);
  // A process that shows no life for so long is lost.
  Clock::duration heartbeat_timeout = std::chrono::seconds(2);
  bool shows_life = true;         // false: no heartbeats
  int busy_threads = 1;           // of a worker, at a time: ranks spin only if their cores are not needed
  Place rendezvous{};             // where ranks find each other, for "tcp"
  std::vector<Place> places;      // by process, for "tcp"; empty: all on loopback here
  bool survives_workers = false;  // a worker that is killed is dropped while others are left, and they go on
  bool saves_when_asked = false;  // SIGUSR1 and a first SIGINT or SIGTERM are passed on as requests
  std::vector<std::string> shared_folders = {};  // of this host, that all of several must see by these paths
  std::vector<int> inherit;  // further descriptors that the workers keep, by the same number
};

// For processes that are told it elsewhere: all but what is this host's own, the program, descriptors and
// places.
nlohmann::json to_json(const JobSpec& spec);
JobSpec spec_from_json(const nlohmann::json& json);

// Colocated servers have none of their own.
int processes_of(const JobSpec& spec);

// What the launcher tells while the job runs. Called from run(), on its thread.
struct Listener {
  std::function<void(Rank, bool is_error, const std::string& line)>
      on_output;                                                    // a line that a worker printed
  std::function<void(Rank, const nlohmann::json& line)> on_report;  // a line from its report pipe
};

struct Outcome {
  int exit_code = 0;
  std::string line;                        // what went wrong, if anything
  bool would_fail_again = false;           // as it is in the run itself and no fault
  std::uint64_t rejected_connections = 0;  // connections that were refused
  std::vector<Rank> dropped = {};          // workers that died on the way
  int interrupted_by = 0;                  // the signal that ended the launcher's patience
};

// Runs the job to its end. SIGINT, SIGTERM and SIGHUP stop it: at once, or, where the job saves when asked,
// after its workers have saved and ended (net/status_board.h), for which they have ten seconds; a second
// signal stops them at once. SIGUSR1 then asks for a checkpoint. Must be called from a thread that outlives
// it, with no other threads doing fork. Throws RunError if the job cannot be started, and ConfigError where
// places on several hosts are to be connected without protection.
Outcome run(const JobSpec& spec, const Listener& listener);

}  // namespace tutti::launch
