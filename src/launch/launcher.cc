#include "launch/launcher.h"

#include <signal.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <memory>

#include "base/process.h"
#include "launch/host_job.h"
#include "launch/interruption.h"
#include "net/interface.h"
#include "net/wire.h"
#include "rendezvous/rendezvous.h"

namespace tutti::launch {
namespace {

std::vector<Rank> all_processes(const JobSpec& spec) {
  std::vector<Rank> ranks;
  for (int r = 0; r < processes_of(spec); ++r) ranks.push_back(Rank{r});
  return ranks;
}

net::Reach reach_of(const JobSpec& spec) {
  auto places = spec.places;
  places.push_back(spec.rendezvous);
  const auto all = [&](const auto& holds) { return std::ranges::all_of(places, holds); };
  if (all([](const Place& p) { return p.network < 0 && net::is_loopback(p.address); }))
    return net::Reach::one_host;
  // A network that is no host's own is one that this machine has made.
  if (all([](const Place& p) { return p.network >= 0; })) return net::Reach::emulated_hosts;
  return net::Reach::hosts;
}

// All of a job on this host.
class Job {
 public:
  Job(const JobSpec& spec, const Listener& listener)
      : spec_(spec),
        interruption_(
            io_, spec.saves_when_asked, listener,
            [this](net::Request request) {
              processes_->board().requests().ask(request);
              return true;
            },
            [this] { processes_->stop_all(); }) {
    WorkerJob common = common_of(spec_);
    if (spec_.transport == "tcp") {
      open_rendezvous(common);
      common.rendezvous = rendezvous_->endpoint();
    }
    processes_ =
        std::make_unique<HostJob>(io_, spec_, common, all_processes(spec_), listener,
                                  HostJob::Events{.on_end = {}, .on_all_ended = [this] { wind_up(); }});
  }

  Outcome run() {
    processes_->start();
    io_.run();
    processes_->read_rest_of_output();
    auto outcome =
        outcome_of(processes_->ends(), interruption_.signal(), processes_->stopping(), processes_of(spec_));
    outcome.dropped = processes_->dropped();
    outcome.rejected_connections = processes_->rejected_connections();
    if (rendezvous_) outcome.rejected_connections += rendezvous_->rejected_connections();
    return outcome;
  }

 private:
  void open_rendezvous(const WorkerJob& job) {
    const auto open = [&] {
      rendezvous_ = std::make_unique<rendezvous::Rendezvous>(io_, address_of(spec_, spec_.rendezvous),
                                                             job.world, credentials_of(job), spec_.ports);
    };
    spec_.rendezvous.network < 0 ? open() : in_network(spec_.rendezvous.network, open);
  }

  // All have ended: io_.run() returns, and only the rest of their output is left to wait for.
  void wind_up() {
    io_.stop();
    interruption_.end();
    if (rendezvous_) rendezvous_->close();
  }

  const JobSpec& spec_;
  boost::asio::io_context io_;
  Interruption interruption_;
  std::unique_ptr<rendezvous::Rendezvous> rendezvous_;
  std::unique_ptr<HostJob> processes_;
};

}  // namespace

Place place_of(const JobSpec& spec, int process) {
  return spec.places.empty() ? Place{} : spec.places.at(static_cast<std::size_t>(process));
}

std::string address_of(const JobSpec& spec, const Place& place) {
  // In a network of its own there is no interface that people could have meant.
  const bool chosen = !spec.interface.empty() && place.network < 0;
  return chosen ? net::address_of_interface(spec.interface) : place.address;
}

WorkerJob common_of(const JobSpec& spec) {
  WorkerJob job;
  job.world = spec.workers + spec.servers;
  job.workers = spec.workers;
  for (int r = 0; r < job.world; ++r) {
    // A colocated server lives with the worker of its number.
    job.hosts.push_back(place_of(spec, r < processes_of(spec) ? r : r - spec.workers).host);
  }
  job.task = spec.task;
  job.payload = spec.payload;
  job.secret = net::make_secret();
  job.transport = spec.transport;
  job.wire = net::resolve_wire(net::parse_wire(spec.wire), reach_of(spec));
  job.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(spec.timeout);
  job.ports = spec.ports;
  job.survives_workers = spec.survives_workers;
  job.shows_life = spec.shows_life;
  return job;
}

Outcome outcome_of(const std::vector<RankEnd>& ends, int interrupted_by, bool stopped, int processes) {
  const Diagnosis verdict = diagnose(ends);
  Outcome outcome;
  outcome.interrupted_by = interrupted_by;
  outcome.exit_code = verdict.exit_code;
  outcome.line = verdict.line;
  outcome.would_fail_again = verdict.would_fail_again;
  if (interrupted_by != 0) {
    outcome.exit_code = 128 + interrupted_by;
    outcome.line = fmt::format("interrupted by {}; all {} processes {}", signal_name(interrupted_by),
                               processes, stopped ? "are stopped" : "have ended");
    if (!stopped && verdict.exit_code != 0) outcome.line += "; " + verdict.line;
  }
  return outcome;
}

int processes_of(const JobSpec& spec) {
  return spec.workers + (spec.colocate ? 0 : spec.servers);
}

Outcome run(const JobSpec& spec, const Listener& listener) {
  auto outcome = Job(spec, listener).run();
  // The end of a signal set brings the default back, which would end us between two tries of a run.
  if (spec.saves_when_asked) ::signal(SIGUSR1, SIG_IGN);
  return outcome;
}

}  // namespace tutti::launch
