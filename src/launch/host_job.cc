#include "launch/host_job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "base/process.h"
#include "launch/cores.h"
#include "launch/output_reader.h"
#include "net/stall.h"
#include "observe/event.h"

namespace tutti::launch {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// After the first failure the others get this long to say what they saw; then all are stopped.
constexpr auto kLastWords = std::chrono::milliseconds(1500);

// When we know already who is to blame, they get this long.
constexpr auto kShortLastWords = std::chrono::milliseconds(600);

// How often the launcher looks whether all live and get on.
constexpr auto kGlance = std::chrono::milliseconds(100);

// When all workers have ended, what they wrote lies in their pipes. This long a pause in it, or this many
// lines for each worker, is its end, even if somebody holds a pipe open or writes on: a process that has left
// its worker's group is none that we can end.
constexpr auto kRestOfOutput = std::chrono::seconds(2);
constexpr int kMostLinesOfRest = 1 << 19;

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

// A worker and whatever it has started: the group that spawn() gave it. Call it before the worker is waited
// for, while its number cannot be another's. A worker that has not come to make its group is met alone.
void kill_group(pid_t pid) {
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
}

}  // namespace

HostJob::HostJob(asio::io_context& io, const JobSpec& spec, WorkerJob common, std::vector<Rank> processes,
                 const Listener& listener, Events events)
    : io_(io),
      spec_(spec),
      common_(std::move(common)),
      ranks_(std::move(processes)),
      listener_(listener),
      events_(std::move(events)),
      limits_{.heartbeat = spec.shows_life ? spec.heartbeat_timeout : spec.timeout,
              .progress = spec.timeout,
              .start = std::max<Clock::duration>(spec.timeout, net::kTimeToStart)} {}

HostJob::~HostJob() {
  kill_all();
}

void HostJob::start() {
  common_.board_fd = board_.fd();
  if (spec_.transport != "tcp") {
    segment_ = std::make_unique<net::Segment>(net::Segment::create(common_.world));
    common_.segment_fd = segment_->fd();
  }
  const auto shares = share_cores(read_cores(allowed_cores()), static_cast<int>(ranks_.size()));
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    WorkerJob job = common_;
    job.rank = ranks_[i];
    const Place place = place_of(spec_, to_int(job.rank));
    job.address = address_of(spec_, place);
    job.local_segment_fd = local_segment_of(job);
    job.own_core = shares[i].size() >= static_cast<std::size_t>(spec_.busy_threads);
    start_one(job, shares[i], place.network);
  }
  watch_all();
}

// The descriptor of the memory that this worker shares with the others of its host; -1 if there is none.
int HostJob::local_segment_of(const WorkerJob& job) {
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

void HostJob::start_one(WorkerJob job, const std::vector<int>& cores, int network) {
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

  const std::size_t i = processes_.size();
  ends_.push_back({.rank = job.rank, .server = to_int(job.rank) >= spec_.workers});
  processes_.push_back({child.pid,
                        std::make_unique<asio::posix::stream_descriptor>(io_, child.pidfd.release()),
                        Watch(limits_)});
  ++alive_;
  await_death(i);
  const Rank rank = job.rank;
  OutputReader::start(io_, std::move(child.out),
                      [this, rank](const std::string& l) { listener_.on_output(rank, false, l); });
  OutputReader::start(io_, std::move(child.error),
                      [this, rank](const std::string& l) { listener_.on_output(rank, true, l); });
  OutputReader::start(io_, std::move(report_read), [this, i](const std::string& l) { on_report(i, l); });
}

Spawned HostJob::spawn_process(const WorkerJob& job, int description, SpawnOptions options) const {
  if (spec_.command.empty()) {
    options.is_ours = true;
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

void HostJob::on_report(std::size_t i, const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded()) return;
  if (json.contains("failure")) {
    ends_[i].failure = failure_from_json(json);
    ends_[i].exit_code = exit_code_of(*ends_[i].failure);
    has_ended(ends_[i]);  // it has only to leave; if it is slow about that and we stop it, its word counts
    // A server in a worker's process has a rank, but no process of its own to be named by.
    if (auto& fault = ends_[i].failure->fault; spec_.colocate && fault) {
      fault->rank = Rank{to_int(fault->rank) % spec_.workers};
      if (fault->peer != net::kRendezvous) fault->peer = Rank{to_int(fault->peer) % spec_.workers};
    }
    if (events_.on_end) events_.on_end(ends_[i]);
  } else if (json.contains(kRejectedConnections)) {
    rejected_connections_ += json[kRejectedConnections].get<std::uint64_t>();
  } else {
    listener_.on_report(ends_[i].rank, json);
  }
}

void HostJob::await_death(std::size_t i) {
  processes_[i].death->async_wait(asio::posix::stream_descriptor::wait_read, [this, i](error_code e) {
    if (!e) on_death(i);
  });
}

void HostJob::on_death(std::size_t i) {
  int status = 0;
  kill_group(processes_[i].pid);  // it has ended; what it has started has not
  ::waitpid(processes_[i].pid, &status, 0);
  processes_[i].pid = -1;
  processes_[i].death->close();
  RankEnd& end = ends_[i];
  if (!stopping_ && !end.failure) {
    has_ended(end);
    if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  }
  if (end.signal != 0 && can_do_without(end)) drop(end);
  if (end.exit_code != 0 || end.signal != 0) begin_end();
  if (events_.on_end) events_.on_end(end);
  if (--alive_ == 0) {
    last_words_.cancel();
    glance_.cancel();
    if (events_.on_all_ended) events_.on_all_ended();
    return;
  }
  if (ending_ && !stopping_ && only_stopped_are_left()) stop_all();
}

bool HostJob::can_do_without(const RankEnd& dead) const {
  if (!spec_.survives_workers || dead.server || ending_ || stopping_) return false;
  return std::ranges::any_of(ends_, [](const RankEnd& e) { return !e.server && e.running; });
}

void HostJob::drop(RankEnd& end) {
  const Rank rank = end.rank;
  const std::string doing = board_.doing(rank);
  board_.drop(rank);
  dropped_.push_back(rank);
  const std::string killed = fmt::format("was killed by {}{}", signal_name(end.signal),
                                         doing.empty() ? "" : fmt::format(" ({})", doing));
  const observe::Note note{fmt::format("rank {} {}; the others go on without it", to_int(rank),
                                       end.found.empty() ? killed : end.found)};
  listener_.on_report(Rank{0}, to_json(observe::Event(note)));
  end.signal = 0;
  end.found.clear();
}

void HostJob::has_ended(RankEnd& end) {
  if (!end.running) return;
  end.running = false;
  end.order = ++ended_;
}

// Whoever could still say something has said it.
bool HostJob::only_stopped_are_left() const {
  return std::ranges::all_of(processes_, [](const Process& p) { return p.pid <= 0 || is_stopped(p.pid); });
}

// One has failed: the others notice by themselves and say so; whoever does not is stopped.
void HostJob::begin_end() {
  if (ending_) return;
  ending_ = true;
  const bool known = std::ranges::any_of(ends_, [](const RankEnd& e) { return !e.found.empty(); });
  last_words_.expires_after(known ? kShortLastWords : kLastWords);
  last_words_.async_wait([this](error_code e) {
    if (!e) stop_all();
  });
}

void HostJob::stop_all() {
  stopping_ = true;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].pid > 0) ends_[i].stopped = is_stopped(processes_[i].pid);
  }
  for (const Process& p : processes_) {
    if (p.pid > 0) kill_group(p.pid);
  }
}

// A glance that comes late counts as one: while we did not run ourselves (Ctrl-Z), nobody had to.
void HostJob::watch_all() {
  if (alive_ == 0) return;  // the timer had run out when the last one's death came to cancel it
  const auto now = Clock::now();
  const auto passed = std::min<Clock::duration>(now - std::exchange(last_glance_, now), kGlance);
  for (std::size_t i = 0; i < processes_.size() && !stopping_; ++i) {
    if (processes_[i].pid > 0 && ends_[i].found.empty()) watch(i, passed);
  }
  glance_.expires_after(kGlance);
  glance_.async_wait([this](error_code e) {
    if (!e) watch_all();
  });
}

// A rank that is lost or stuck is ended; what follows is the same as for one that died.
void HostJob::watch(std::size_t i, Clock::duration passed) {
  Process& p = processes_[i];
  const auto finding = p.watch.look(vitals_of(i), passed);
  if (!finding) return;
  if (is_held(p.pid)) return p.watch.excuse();
  ends_[i].found = describe(*finding, is_stopped(p.pid), board_.doing(ends_[i].rank));
  ::kill(p.pid, SIGKILL);
}

Vitals HostJob::vitals_of(std::size_t i) {
  const Rank rank = ends_[i].rank;
  if (!spec_.shows_life || !spec_.command.empty()) {
    // All that can be seen of a program that shows no life is that it is not stopped. How long one of
    // others works between two words to its peers is its own affair, so it is never stuck.
    std::uint64_t& glances = processes_[i].glances;
    if (!is_stopped(processes_[i].pid)) ++glances;
    const Vitals shown = board_.vitals(rank);
    const bool shows_life = shown.beats > 0 && !shown.signed_off;
    return {.beats = shows_life ? shown.beats : glances, .progress = glances};
  }
  return board_.vitals(rank);
}

void HostJob::read_rest_of_output() {
  io_.restart();
  const int most = static_cast<int>(ranks_.size()) * kMostLinesOfRest;
  for (int i = 0; i < most && io_.run_one_for(kRestOfOutput) > 0; ++i) continue;
}

void HostJob::kill_all() {
  for (const Process& p : processes_) {
    if (p.pid > 0) {
      kill_group(p.pid);
      ::waitpid(p.pid, nullptr, 0);
    }
  }
}

}  // namespace tutti::launch
