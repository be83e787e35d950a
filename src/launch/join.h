// A job of ours out of processes that somebody else has started (rendezvous/meeting.h): what launch::run()
// does for processes of its own.
//
// What the first of a host makes (shared memory, the status board) the others of the host open through
// /proc/PID/fd; it has no name. The secret is drawn by rank 0 and told in the meeting. Whoever has started
// the processes also ends them when one fails; here nobody watches them. Its signals are heard
// (launch/process_signals.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/job.h"
#include "launch/launcher.h"
#include "launch/process_signals.h"
#include "rendezvous/meeting.h"

namespace tutti::launch {

// By rank, a number that processes of one host share; hosts count from 0. Processes of different network
// namespaces are on different hosts. A collective call.
std::vector<int> hosts_of(rendezvous::Meeting& meeting);

// This process's place in the job; what it stands on lives as long.
class Joined {
 public:
  virtual ~Joined() = default;
  // Ready for launch::connect(); report_fd is the caller's to set.
  virtual const WorkerJob& job() const = 0;
  // All are in: takes no more callers, and says how many connections were refused; 0 where rank 0 did that.
  virtual std::uint64_t close_rendezvous() = 0;
};

// A collective call: rank 0 brings the spec, others null. Of the spec counts what is the same for all
// processes: ranks, task, payload, transport, time-outs. Its workers and servers must be as many processes as
// have met. Ranks listen on spec.interface if it names one, else on loopback where all share a host, else
// where the meeting says that others reach them, else on the address of their host's name. Throws
// ConfigError, the same on every rank; CalledOff, on every rank, where one of them cannot take part;
// RunError.
std::unique_ptr<Joined> join(rendezvous::Meeting& meeting, const JobSpec* spec);

// Why nothing begins, and what all ranks exit with: 2 where what they were told is wrong.
struct CalledOff : ConfigError {
  CalledOff(const std::string& why, int code) : ConfigError(why), exit_code(code) {}
  int exit_code;
};

// In the place of join(), or of any gather of it, where a rank cannot take part: that of the others throws
// CalledOff, which names the rank unless it is 0. A collective call.
void call_off(rendezvous::Meeting& meeting, const std::string& why, int exit_code);

// Joins, and calls `work` with this process's place, on this thread; it returns an exit code and closes
// job.report_fd, as `tutti worker` does. What it reports goes to the listener, on a thread of its own. After
// work that went well returns when all ranks' has; the result is this rank's own outcome, but that all are
// interrupted, by the same signal, where they have met a request to stop.
Outcome run_joined(rendezvous::Meeting& meeting, const JobSpec* spec, const Listener& listener,
                   const std::function<int(const WorkerJob&)>& work, ProcessSignals* signals = nullptr);

}  // namespace tutti::launch
