// A job on several hosts: an agent on each of them starts and watches the processes there, and tells whoever
// has started it (launch/hosts.h).
//
//   launcher  ── ssh ──►  agent on host 1  ──►  ranks 0 to 3     shared memory, status board
//             ── ssh ──►  agent on host 2  ──►  ranks 4 to 7     likewise
//
// They speak lines of JSON, over the agent's standard input and output:
//
//   agent: {"agent": ...}     who it is: its version, and the addresses of the connection
//   launcher: {"job": ...}    what to prepare, with the job's secret; once
//   agent: {"ready"}          when it has read what its ranks need
//   launcher: {"go"}          when all are ready: now they start
//   both: {"board": ...}      what the ranks show of themselves (net/status_board.h), ten times a second.
//                             All hosts show it: who waits sees others get on wherever they are
//   launcher: {"ask"}, {"decided"}, {"known"}, {"end"}, {"stop"}      requests to the job, and its end
//   agent: {"output"}, {"report"}, {"ended"}, {"decided"}, {"told"}, {"failed"}, {"done"}
//   launcher: {"clock": ...}  asked for the time, by one who only looks at hosts (launch/inspect.h);
//                             answered likewise
//
// What ranks print waits in the agent while the link to the launcher is slower than they are. Beyond some
// megabytes their lines are dropped, and how many were is said: what keeps the job alive takes the same way.
//
// An agent whose launcher is gone (the end of its input), or is silent for half a minute, ends its processes
// and then itself: nothing stays behind on any host.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launch/diagnose.h"
#include "launch/launcher.h"

namespace tutti::launch {

// What an agent says first.
struct AgentHello {
  std::string version;  // of the program; a launcher of another one refuses it
  std::string address;  // of this host, as the launcher has reached it; empty if it was started without ssh
  std::string caller;   // the launcher's, as seen from here; likewise
  int cores = 0;        // that a process here may use
  std::uint64_t memory_bytes = 0;
};

// What an agent is told.
struct AgentJob {
  JobSpec spec;  // but for `program`, `places`, `inherit` and `rendezvous`, which are the host's own
  std::vector<Rank> ranks;  // those that start here
  std::vector<int> hosts;   // by rank
  net::Secret secret{};
  Digest digest{};  // of the job as the launcher has it (launch/job.h)
  net::Endpoint rendezvous;
  std::string address;  // where ranks of this host listen
  std::string folder;   // the launcher's working folder, which becomes theirs
  // Files that the launcher has written, and what is in each: must be seen here, too.
  std::vector<std::string> shared_files = {};
  std::string shared_text = {};
};

// How long either side may be silent; ready or not, both speak ten times a second.
inline constexpr auto kLauncherSilence = std::chrono::seconds(30);
inline constexpr auto kAgentSilence = std::chrono::seconds(5);
// How often both tell what ranks show.
inline constexpr auto kBoardPeriod = std::chrono::milliseconds(100);

nlohmann::json to_json(const AgentHello& hello);
AgentHello hello_from_json(const nlohmann::json& json);
nlohmann::json to_json(const AgentJob& job);
AgentJob agent_job_from_json(const nlohmann::json& json);
nlohmann::json to_json(const RankEnd& end);
RankEnd rank_end_from_json(const nlohmann::json& json);
nlohmann::json to_json(Rank rank, const net::Shown& shown);
std::pair<Rank, net::Shown> shown_from_json(const nlohmann::json& json);

// Before the `processes` of this host start: what a job names of the launcher's host (files in its payload,
// its share of the cores) becomes what it is on this one. Descriptors that they shall inherit are added to
// the spec; whoever owns them keeps them. Throws UsageError if something is missing here.
using Localise = std::function<void(JobSpec& spec, int processes)>;

// An agent's life: from its hello to the end of its processes. Speaks through standard input and output.
// Returns the program's exit code: 0 if the launcher has heard how everything ended, else 1.
int run_agent(const AgentHello& hello, const std::string& program, const Localise& localise);

}  // namespace tutti::launch
