// What stands behind a Session: the way to the other processes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/native.h"
#include "config/launchers.h"
#include "launch/job.h"
#include "library/tensors.h"
#include "library/world.h"
#include "net/heartbeat.h"
#include "observe/jsonl_sink.h"
#include "rendezvous/meeting.h"

namespace tutti::library {

// One thread uses it.
class Member {
 public:
  // As our launcher's description says (launch/job.h). Throws ConfigError, Timeout, PeerLost.
  static std::unique_ptr<Member> of_job(int job_descriptor);

  // Makes a job with the others of the meeting. A collective call. Throws likewise, and RunError.
  static std::unique_ptr<Member> of_meeting(std::unique_ptr<rendezvous::Meeting> meeting,
                                            const config::JoinSettings& settings);

  static std::unique_ptr<Member> alone();

  // Over a transport that is there. `neighbours`: those of this process's host in shared memory, where the
  // job is on several and it is not alone on its own (collectives::Hosts).
  Member(std::unique_ptr<net::Transport> transport, ConnectOptions connection, InJob in_job = {},
         std::unique_ptr<net::Transport> neighbours = nullptr);

  int rank() const { return to_int(all_->rank()); }
  int size() const { return all_->world(); }
  int local_rank() const;  // among those of this host
  int local_size() const;
  collectives::Collectives& all() { return *all_; }
  Clock::duration timeout() const { return connection_.options.timeout; }
  const std::vector<int>& hosts() const { return in_job_.hosts; }  // by rank

  std::unique_ptr<World> make_world(int servers);

  // Some of the processes, ranked in the order given; called by these alone. Throws ConfigError, and Timeout
  // and PeerLost, which name ranks of this session.
  std::unique_ptr<Member> group(std::span<const int> ranks);

  Tensors& tensors() { return tensors_; }

  // Runs `work`; where a peer is to blame for what it throws, the launcher is told, too, and can name the
  // culprit.
  template <typename Work>
  auto tell_failure_of(const Work& work) {
    try {
      return work();
    } catch (const std::exception& e) {
      tell(e);
      throw;
    }
  }

 private:
  struct Life;  // what this process shows the launcher
  static std::unique_ptr<Member> of(const launch::WorkerJob& job, std::shared_ptr<Life> life);
  void tell(const std::exception& e);

  const ConnectOptions connection_;
  InJob in_job_;
  std::shared_ptr<Life> life_;
  std::unique_ptr<World> world_;  // of a group: the one that it is in
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::Transport> neighbours_;
  std::unique_ptr<collectives::NativeEngine> all_;
  Tensors tensors_;
};

}  // namespace tutti::library
