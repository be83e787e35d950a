#include "launch/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/streambuf.hpp>
#include <fstream>
#include <functional>
#include <map>

#include "base/process.h"
#include "launch/cores.h"
#include "launch/spawn.h"
#include "launch/watch.h"
#include "net/segment.h"
#include "net/stall.h"
#include "net/wire.h"
#include "observe/event.h"
#include "rendezvous/rendezvous.h"

namespace tutti::launch {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// After the first failure the others get this long to say what they saw; then all are stopped.
constexpr auto kLastWords = std::chrono::milliseconds(1500);

// How long workers that were asked to save and end may take.
constexpr auto kTimeToStop = std::chrono::seconds(10);

// When we know already who is to blame, they get this long.
constexpr auto kShortLastWords = std::chrono::milliseconds(600);

// How often the launcher looks whether all live and get on.
constexpr auto kGlance = std::chrono::milliseconds(100);

// When all workers have ended, what they wrote lies in their pipes. This long a pause in it, or this many
// lines for each worker, is its end, even if somebody holds a pipe open or writes on: a process that has left
// its worker's group is none that we can end.
constexpr auto kRestOfOutput = std::chrono::seconds(2);
constexpr int kMostLinesOfRest = 1 << 19;

// A line longer than this is cut: nobody's output may fill our memory.
constexpr std::size_t kLongestLine = 1 << 20;

// Calls on_line for every line of a descriptor until its end.
class OutputReader : public std::enable_shared_from_this<OutputReader> {
 public:
  OutputReader(asio::io_context& io, UniqueFd fd, std::function<void(const std::string&)> on_line)
      : descriptor_(io, fd.release()), buffer_(kLongestLine), on_line_(std::move(on_line)) {}

  void start() {
    asio::async_read_until(descriptor_, buffer_, '\n',
                           [self = shared_from_this()](error_code e, std::size_t n) {
                             if (e == asio::error::not_found) {
                               self->emit(self->buffer_.size(), 0);  // too long: cut here
                             } else if (e) {
                               return self->finish();
                             } else {
                               self->emit(n, 1);
                             }
                             self->start();
                           });
  }

 private:
  void emit(std::size_t n, std::size_t terminator) {
    const auto begin = asio::buffers_begin(buffer_.data());
    const std::string line(begin, begin + static_cast<std::ptrdiff_t>(n - terminator));
    buffer_.consume(n);
    on_line_(line);
  }
  void finish() {
    if (buffer_.size() > 0) emit(buffer_.size(), 0);
  }

  asio::posix::stream_descriptor descriptor_;
  asio::streambuf buffer_;
  std::function<void(const std::string&)> on_line_;
};

// The first letter of a line of /proc/PID/status, 0 if there is none: "State" of "State:\tT (stopped)" is T.
char status_of(pid_t pid, std::string_view line) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string text; std::getline(status, text);) {
    if (text.starts_with(line) && text.size() > line.size() + 2) return text[line.size() + 2];
  }
  return 0;
}

// By a signal. A tracer's stop is 't' and does not count.
bool is_stopped(pid_t pid) {
  return status_of(pid, "State") == 'T';
}

// Who holds a rank in a debugger wants it left alone, and a leak check stops its process likewise. One whose
// memory is being written to a core file is about to say why it dies.
bool is_held(pid_t pid) {
  return status_of(pid, "State") == 't' || status_of(pid, "CoreDumping") == '1';
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

// A worker and whatever it has started: the group that spawn() gave it. Call it before the worker is waited
// for, while its number cannot be another's. A worker that has not come to make its group is met alone.
void kill_group(pid_t pid) {
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
}

class Job {
 public:
  Job(const JobSpec& spec, const Listener& listener) : spec_(spec), listener_(listener) {}
  ~Job() { kill_all(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Outcome run() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      // What our caller told us to ignore (nohup, a shell's background job) stays ignored.
      struct sigaction current {};
      if (::sigaction(signal, nullptr, &current) == 0 && current.sa_handler != SIG_IGN) signals_.add(signal);
    }
    if (spec_.saves_when_asked) signals_.add(SIGUSR1);
    await_signal();
    start_all();
    watch_all();
    io_.run();
    read_rest_of_output();
    Outcome outcome;
    outcome.rejected_connections = rejected_connections_;
    outcome.interrupted_by = interrupted_by_;
    outcome.dropped = dropped_;
    const Diagnosis verdict = diagnose(ends_);
    outcome.exit_code = verdict.exit_code;
    outcome.line = verdict.line;
    outcome.would_fail_again = verdict.would_fail_again;
    if (interrupted_by_ != 0) {
      outcome.exit_code = 128 + interrupted_by_;
      outcome.line = fmt::format("interrupted by {}; all {} processes {}", signal_name(interrupted_by_),
                                 processes_, stopping_ ? "are stopped" : "have ended");
      if (!stopping_ && verdict.exit_code != 0) outcome.line += "; " + verdict.line;
    }
    return outcome;
  }

 private:
  struct Worker {
    pid_t pid = -1;
    std::unique_ptr<asio::posix::stream_descriptor> death = nullptr;
    Watch watch;
    std::uint64_t glances = 0;  // at which it was not stopped; counted for who shows no life of its own
  };

  void start_all() {
    WorkerJob job;
    job.world = spec_.workers + spec_.servers;
    job.workers = spec_.workers;
    for (int r = 0; r < job.world; ++r) job.hosts.push_back(place_of(process_of(r)).host);
    job.task = spec_.task;
    job.payload = spec_.payload;
    job.secret = net::make_secret();
    job.transport = spec_.transport;
    job.wire = net::resolve_wire(net::parse_wire(spec_.wire), reach_of(spec_));
    job.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(spec_.timeout);
    job.board_fd = board_.fd();
    job.survives_workers = spec_.survives_workers;
    job.shows_life = spec_.shows_life;
    if (spec_.transport == "tcp") {
      open_rendezvous(job);
      job.rendezvous = rendezvous_->endpoint();
    } else {
      segment_ = std::make_unique<net::Segment>(net::Segment::create(job.world));
      job.segment_fd = segment_->fd();
    }
    const auto shares = share_cores(read_cores(allowed_cores()), processes_);
    for (int r = 0; r < processes_; ++r) {
      job.rank = Rank{r};
      const Place place = place_of(r);
      job.address = place.address;
      job.local_segment_fd = local_segment_of(job);
      job.own_core =
          shares[static_cast<std::size_t>(r)].size() >= static_cast<std::size_t>(spec_.busy_threads);
      start_one(job, shares[static_cast<std::size_t>(r)], place.network);
    }
  }

  Place place_of(int process) const {
    return spec_.places.empty() ? Place{} : spec_.places.at(static_cast<std::size_t>(process));
  }
  // A colocated server lives with the worker of its number.
  int process_of(int rank) const { return rank < processes_ ? rank : rank - spec_.workers; }

  // The descriptor of the memory that this worker shares with the others of its host; -1 if there is none.
  int local_segment_of(const WorkerJob& job) {
    const bool several_hosts = std::ranges::adjacent_find(job.hosts, std::not_equal_to()) != job.hosts.end();
    const bool wanted = spec_.transport == "tcp" && (several_hosts || spec_.local_memory);
    const auto workers = workers_of_host(job);
    if (!wanted || to_int(job.rank) >= spec_.workers || workers.size() < 2) return -1;
    const int host = job.hosts[static_cast<std::size_t>(to_int(job.rank))];
    const auto found = local_segments_.find(host);
    if (found != local_segments_.end()) return found->second.fd();
    return local_segments_.emplace(host, net::Segment::create(static_cast<int>(workers.size())))
        .first->second.fd();
  }

  void open_rendezvous(const WorkerJob& job) {
    const auto open = [&] {
      rendezvous_ = std::make_unique<rendezvous::Rendezvous>(io_, spec_.rendezvous.address, job.world,
                                                             credentials_of(job));
    };
    spec_.rendezvous.network < 0 ? open() : in_network(spec_.rendezvous.network, open);
  }

  void start_one(WorkerJob job, const std::vector<int>& cores, int network) {
    int report[2];
    if (::pipe2(report, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
    UniqueFd report_read(report[0]);
    const UniqueFd report_write(report[1]);
    job.report_fd = report_write.get();
    const UniqueFd description = write_job(job);
    std::vector<int> inherit = spec_.inherit;
    inherit.insert(inherit.end(), {description.get(), report_write.get(), job.board_fd});
    for (const int fd : {job.segment_fd, job.local_segment_fd}) {
      if (fd >= 0) inherit.push_back(fd);
    }
    Spawned child = spawn_process(job, description.get(), {inherit, spec_.environment, cores, network});

    const std::size_t i = workers_.size();
    ends_.push_back({.rank = job.rank, .server = to_int(job.rank) >= spec_.workers});
    workers_.push_back({child.pid,
                        std::make_unique<asio::posix::stream_descriptor>(io_, child.pidfd.release()),
                        Watch(limits_)});
    await_death(i);
    const Rank rank = job.rank;
    read_lines(std::move(child.out),
               [this, rank](const std::string& l) { listener_.on_output(rank, false, l); });
    read_lines(std::move(child.error),
               [this, rank](const std::string& l) { listener_.on_output(rank, true, l); });
    read_lines(std::move(report_read), [this, i](const std::string& l) { on_report(i, l); });
  }

  Spawned spawn_process(const WorkerJob& job, int description, SpawnOptions options) const {
    if (spec_.command.empty()) {
      return spawn(spec_.program, {"worker", "--job-fd", std::to_string(description)}, options);
    }
    const auto local = workers_of_host(job);
    const auto local_rank = std::ranges::find(local, job.rank) - local.begin();
    for (const auto& [name, value] : {std::pair{kJobVariable, description},
                                      {"RANK", to_int(job.rank)},
                                      {"WORLD_SIZE", job.world},
                                      {"LOCAL_RANK", static_cast<int>(local_rank)},
                                      {"LOCAL_WORLD_SIZE", static_cast<int>(local.size())}}) {
      options.environment.push_back(fmt::format("{}={}", name, value));
    }
    return spawn(spec_.command[0], {spec_.command.begin() + 1, spec_.command.end()}, options);
  }

  void read_lines(UniqueFd fd, std::function<void(const std::string&)> on_line) {
    std::make_shared<OutputReader>(io_, std::move(fd), std::move(on_line))->start();
  }

  void on_report(std::size_t i, const std::string& line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) return;
    if (json.contains("failure")) {
      ends_[i].failure = failure_from_json(json);
      ends_[i].exit_code = exit_code_of(*ends_[i].failure);
      has_ended(ends_[i]);  // it has only to leave; if it is slow about that and we stop it, its word counts
      // A server in a worker's process has a rank, but no process of its own to be named by.
      if (auto& fault = ends_[i].failure->fault; spec_.colocate && fault) {
        fault->rank = Rank{to_int(fault->rank) % spec_.workers};
        fault->peer = Rank{to_int(fault->peer) % spec_.workers};
      }
    } else if (json.contains(kRejectedConnections)) {
      rejected_connections_ += json[kRejectedConnections].get<std::uint64_t>();
    } else {
      listener_.on_report(ends_[i].rank, json);
    }
  }

  void await_death(std::size_t i) {
    workers_[i].death->async_wait(asio::posix::stream_descriptor::wait_read, [this, i](error_code e) {
      if (!e) on_death(i);
    });
  }

  void on_death(std::size_t i) {
    int status = 0;
    kill_group(workers_[i].pid);  // it has ended; what it has started has not
    ::waitpid(workers_[i].pid, &status, 0);
    workers_[i].pid = -1;
    workers_[i].death->close();
    RankEnd& end = ends_[i];
    if (!stopping_ && !end.failure) {
      has_ended(end);
      if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
      if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    }
    if (end.signal != 0 && can_do_without(end)) drop(end);
    if (end.exit_code != 0 || end.signal != 0) begin_end();
    if (--alive_ == 0) return wind_up();
    if (ending_ && !stopping_ && only_stopped_are_left()) stop_all();
  }

  bool can_do_without(const RankEnd& dead) const {
    if (!spec_.survives_workers || dead.server || ending_ || stopping_) return false;
    return std::ranges::any_of(ends_, [](const RankEnd& e) { return !e.server && e.running; });
  }

  void drop(RankEnd& end) {
    const Rank rank = end.rank;
    const std::string doing = board_.doing(rank);
    board_.drop(rank);
    dropped_.push_back(rank);
    const std::string killed = fmt::format("was killed by {}{}", signal_name(end.signal),
                                           doing.empty() ? "" : fmt::format(" ({})", doing));
    tell(fmt::format("rank {} {}; the others go on without it", to_int(rank),
                     end.found.empty() ? killed : end.found));
    end.signal = 0;
    end.found.clear();
  }

  void has_ended(RankEnd& end) {
    if (!end.running) return;
    end.running = false;
    end.order = ++ended_;
  }

  // Whoever could still say something has said it.
  bool only_stopped_are_left() const {
    return std::ranges::all_of(workers_, [](const Worker& w) { return w.pid <= 0 || is_stopped(w.pid); });
  }

  // One has failed: the others notice by themselves and say so; whoever does not is stopped.
  void begin_end() {
    if (ending_) return;
    ending_ = true;
    const bool known = std::ranges::any_of(ends_, [](const RankEnd& e) { return !e.found.empty(); });
    last_words_.expires_after(known ? kShortLastWords : kLastWords);
    last_words_.async_wait([this](error_code e) {
      if (!e) stop_all();
    });
  }

  void stop_all() {
    stopping_ = true;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].pid > 0) ends_[i].stopped = is_stopped(workers_[i].pid);
    }
    for (const Worker& w : workers_) {
      if (w.pid > 0) kill_group(w.pid);
    }
  }

  // A glance that comes late counts as one: while we did not run ourselves (Ctrl-Z), nobody had to.
  void watch_all() {
    if (alive_ == 0) return;  // the timer had run out when wind_up() came to cancel it
    const auto now = Clock::now();
    const auto passed = std::min<Clock::duration>(now - std::exchange(last_glance_, now), kGlance);
    for (std::size_t i = 0; i < workers_.size() && !stopping_; ++i) {
      if (workers_[i].pid > 0 && ends_[i].found.empty()) watch(i, passed);
    }
    glance_.expires_after(kGlance);
    glance_.async_wait([this](error_code e) {
      if (!e) watch_all();
    });
  }

  // A rank that is lost or stuck is ended; what follows is the same as for one that died.
  void watch(std::size_t i, Clock::duration passed) {
    Worker& w = workers_[i];
    const auto finding = w.watch.look(vitals_of(i), passed);
    if (!finding) return;
    if (is_held(w.pid)) return w.watch.excuse();
    ends_[i].found = describe(*finding, is_stopped(w.pid), board_.doing(ends_[i].rank));
    ::kill(w.pid, SIGKILL);
  }

  Vitals vitals_of(std::size_t i) {
    const Rank rank = ends_[i].rank;
    if (!spec_.shows_life || !spec_.command.empty()) {
      // All that can be seen of a program that shows no life is that it is not stopped. How long one of
      // others works between two words to its peers is its own affair, so it is never stuck.
      std::uint64_t& glances = workers_[i].glances;
      if (!is_stopped(workers_[i].pid)) ++glances;
      const Vitals shown = board_.vitals(rank);
      const bool shows_life = shown.beats > 0 && !shown.signed_off;
      return {.beats = shows_life ? shown.beats : glances, .progress = glances};
    }
    return board_.vitals(rank);
  }

  void await_signal() {
    signals_.async_wait([this](error_code e, int signal) {
      if (e) return;
      on_signal(signal);
      await_signal();
    });
  }

  void on_signal(int signal) {
    if (signal == SIGUSR1) return board_.requests().ask(net::Request::save);
    const bool first = interrupted_by_ == 0;
    interrupted_by_ = signal;
    if (!first || !spec_.saves_when_asked) return stop_all();
    board_.requests().ask(net::Request::stop);
    tell(fmt::format("{}: saves after the next step and ends; a second one ends it at once",
                     signal_name(signal)));
    time_to_stop_.expires_after(kTimeToStop);
    time_to_stop_.async_wait([this](error_code e) {
      if (!e) stop_all();
    });
  }

  // As one of the job's own events.
  void tell(const std::string& text) {
    listener_.on_report(Rank{0}, to_json(observe::Event(observe::Note{text})));
  }

  // All have ended: io_.run() returns, and only the rest of their output is left to wait for.
  void wind_up() {
    io_.stop();
    last_words_.cancel();
    glance_.cancel();
    signals_.cancel();
    time_to_stop_.cancel();
    if (!rendezvous_) return;
    rendezvous_->close();
    rejected_connections_ += rendezvous_->rejected_connections();
  }

  void read_rest_of_output() {
    io_.restart();
    for (int i = 0; i < processes_ * kMostLinesOfRest && io_.run_one_for(kRestOfOutput) > 0; ++i) continue;
  }

  void kill_all() {
    for (const Worker& w : workers_) {
      if (w.pid > 0) {
        kill_group(w.pid);
        ::waitpid(w.pid, nullptr, 0);
      }
    }
  }

  const JobSpec& spec_;
  const Listener& listener_;
  asio::io_context io_;
  asio::signal_set signals_{io_};
  asio::steady_timer last_words_{io_};
  asio::steady_timer glance_{io_};
  asio::steady_timer time_to_stop_{io_};
  const net::StatusBoard board_ = net::StatusBoard::create(spec_.workers + spec_.servers);
  std::unique_ptr<net::Segment> segment_;
  std::map<int, net::Segment> local_segments_;  // by host
  std::unique_ptr<rendezvous::Rendezvous> rendezvous_;
  std::vector<Worker> workers_;
  std::vector<RankEnd> ends_;
  std::vector<Rank> dropped_;
  const int processes_ = processes_of(spec_);
  int alive_ = processes_;
  std::uint64_t rejected_connections_ = 0;
  int ended_ = 0;
  bool ending_ = false;
  bool stopping_ = false;
  int interrupted_by_ = 0;
  const WatchLimits limits_{.heartbeat = spec_.shows_life ? spec_.heartbeat_timeout : spec_.timeout,
                            .progress = spec_.timeout,
                            .start = std::max<Clock::duration>(spec_.timeout, net::kTimeToStart)};
  Clock::time_point last_glance_ = Clock::now();
};

}  // namespace

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
