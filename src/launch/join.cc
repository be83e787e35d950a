#include "launch/join.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/version.h"
#include "launch/interruption.h"
#include "net/auth.h"
#include "net/interface.h"
#include "net/segment.h"
#include "net/status_board.h"
#include "net/wire.h"
#include "rendezvous/rendezvous.h"

namespace tutti::launch {
namespace {

namespace asio = boost::asio;
using nlohmann::json;

std::string link_of(const char* path) {
  char text[256];
  const ssize_t n = ::readlink(path, text, sizeof text);
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "";
}

// Processes with the same can open each other's descriptors, and reach each other over loopback.
std::string host_id() {
  return read_file("/proc/sys/kernel/random/boot_id") + link_of("/proc/self/ns/pid") +
         link_of("/proc/self/ns/net");
}

// What a rank says in the place of whatever else when it cannot take part: then its exit code, a digit, and
// why.
constexpr std::string_view kCalledOff = "called off: ";

// Everyone's text, unless somebody cannot take part.
std::vector<std::string> gather(rendezvous::Meeting& meeting, const std::string& mine) {
  auto texts = meeting.all_gather(mine);
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r].starts_with(kCalledOff)) continue;
    const auto code_at = kCalledOff.size();
    const auto why = texts[r].substr(code_at + 2);
    throw CalledOff(r == 0 ? why : fmt::format("rank {}: {}", r, why), texts[r][code_at] - '0');
  }
  return texts;
}

// What may fail on one rank alone: the others wait in a gather, and are told.
void or_call_off(rendezvous::Meeting& meeting, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    const int code = exit_code_of(failure_of(e));
    call_off(meeting, e.what(), code);
    throw CalledOff(e.what(), code);
  }
}

// Where this process listens: where it was told to, or where the others reach it.
std::string address_for(const JobSpec& spec, const rendezvous::Meeting& meeting, bool one_host) {
  if (!spec.interface.empty()) return net::address_of_interface(spec.interface);
  if (one_host) return "127.0.0.1";
  const auto known = meeting.address();
  return known.empty() ? net::address_of_host() : known;
}

UniqueFd open_of_process(int pid, int fd) {
  UniqueFd own(::open(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), O_RDWR | O_CLOEXEC));
  if (!own) throw_errno(fmt::format("cannot open the memory that process {} shares", pid));
  return own;
}

// Where ranks find each other, in rank 0's process.
class RendezvousThread {
 public:
  explicit RendezvousThread(const WorkerJob& job)
      : rendezvous_(io_, job.address, job.world, credentials_of(job), job.ports),
        endpoint_(rendezvous_.endpoint()),
        thread_([this] {
          name_thread("rendezvous");
          io_.run();
        }) {}
  ~RendezvousThread() { close(); }
  const net::Endpoint& endpoint() const { return endpoint_; }
  // Takes no more callers; how many it has refused.
  std::uint64_t close() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    return rendezvous_.rejected_connections();
  }

 private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  rendezvous::Rendezvous rendezvous_;
  net::Endpoint endpoint_;
  std::thread thread_;
};

class Member final : public Joined {
 public:
  Member(rendezvous::Meeting& meeting, const JobSpec& spec, const net::Secret& secret,
         const std::vector<int>& hosts) {
    const auto me = static_cast<std::size_t>(to_int(meeting.rank()));
    const bool one_host = std::ranges::all_of(hosts, [](int h) { return h == 0; });
    check(meeting, spec, one_host);
    const auto first = static_cast<std::size_t>(std::ranges::find(hosts, hosts[me]) - hosts.begin());
    job_.rank = meeting.rank();
    job_.world = spec.workers + spec.servers;
    job_.workers = spec.workers;
    std::vector<int> process_of;
    for (int r = 0; r < job_.world; ++r) {
      // A colocated server lives with the worker of its number.
      process_of.push_back(r < meeting.world() ? r : r - spec.workers);
      job_.hosts.push_back(hosts.at(static_cast<std::size_t>(process_of.back())));
    }
    job_.task = spec.task;
    job_.payload = spec.payload;
    job_.secret = secret;
    job_.transport = spec.transport;
    if (spec.transport == "mpi") {
      job_.connector = std::make_shared<rendezvous::Connector>(meeting.connector(process_of));
    } else {
      job_.wire =
          net::resolve_wire(net::parse_wire(spec.wire), one_host ? net::Reach::one_host : net::Reach::hosts);
    }
    job_.ports = spec.ports;
    job_.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(spec.timeout);
    job_.shows_life = spec.shows_life;
    const auto neighbours = static_cast<std::size_t>(std::ranges::count(hosts, hosts[me]));
    job_.own_core = allowed_cores().size() / neighbours >= static_cast<std::size_t>(spec.busy_threads);

    or_call_off(meeting, [&] {
      job_.address = address_for(spec, meeting, one_host);
      if (first == me) make_shared_memory(spec, spec.transport == "shm");
      if (me == 0 && spec.transport == "tcp") rendezvous_.emplace(job_);
    });
    const auto texts = gather(meeting, what_others_open().dump());
    or_call_off(meeting, [&] {
      if (first != me) open_shared_memory(json::parse(texts[first]));
    });
    gather(meeting, "");  // who has made something keeps it until all have it
    const json at_first = json::parse(texts[0]);
    job_.rendezvous = {at_first.at("rendezvous_host"), at_first.at("rendezvous_port")};
  }

  const WorkerJob& job() const override { return job_; }
  std::uint64_t close_rendezvous() override { return rendezvous_ ? rendezvous_->close() : 0; }

 private:
  static void check(const rendezvous::Meeting& meeting, const JobSpec& spec, bool one_host) {
    if (processes_of(spec) != meeting.world()) {
      throw ConfigError(fmt::format("{} workers and {} servers need {} processes, and {} were started",
                                    spec.workers, spec.colocate ? 0 : spec.servers, processes_of(spec),
                                    meeting.world()));
    }
    if (!one_host && spec.transport == "shm")
      throw ConfigError("--transport shm is for processes of one host, and these are on several");
  }

  void make_shared_memory(const JobSpec& spec, bool shares) {
    const bool several_hosts = std::ranges::any_of(job_.hosts, [](int h) { return h != 0; });
    board_.emplace(net::StatusBoard::create(job_.world));
    if (several_hosts) board_->mirror().show_one_host();
    job_.board_fd = board_->fd();
    if (shares) segment_.emplace(net::Segment::create(job_.world));
    if (shares) job_.segment_fd = segment_->fd();
    const auto workers = static_cast<int>(workers_of_host(job_).size());
    if (shares || workers < 2 || (!spec.local_memory && !several_hosts)) return;
    segment_.emplace(net::Segment::create(workers));
    job_.local_segment_fd = segment_->fd();
  }

  json what_others_open() const {
    const net::Endpoint where = rendezvous_ ? rendezvous_->endpoint() : net::Endpoint{};
    return {{"pid", ::getpid()},
            {"board_fd", job_.board_fd},
            {"segment_fd", job_.segment_fd},
            {"local_segment_fd", job_.local_segment_fd},
            {"rendezvous_host", where.host},
            {"rendezvous_port", where.port}};
  }

  void open_shared_memory(const json& made) {
    const int pid = made.at("pid");
    const auto open = [&](const char* which) {
      const int fd = made.at(which);
      if (fd < 0) return -1;
      opened_.push_back(open_of_process(pid, fd));
      return opened_.back().get();
    };
    job_.board_fd = open("board_fd");
    job_.segment_fd = open("segment_fd");
    if (to_int(job_.rank) < job_.workers) job_.local_segment_fd = open("local_segment_fd");
  }

  WorkerJob job_;
  std::optional<net::StatusBoard> board_;
  std::optional<net::Segment> segment_;
  std::vector<UniqueFd> opened_;
  std::optional<RendezvousThread> rendezvous_;
};

// By rank, what each has said first.
void require_one_version(const std::vector<std::string>& texts) {
  const auto version_of = [](const std::string& text) {
    return json::parse(text).at("version").get<std::string>();
  };
  const auto first = version_of(texts.front());
  for (std::size_t r = 1; r < texts.size(); ++r) {
    if (const auto other = version_of(texts[r]); other != first) {
      throw ConfigError(
          fmt::format("rank 0 is tutti {} and rank {} is tutti {}: the same version must be everywhere",
                      first, r, other));
    }
  }
}

// Hands a worker's reports to whoever listens, until the pipe ends.
class Reports {
 public:
  Reports(Rank rank, UniqueFd pipe, const Listener& listener)
      : thread_([this, rank, pipe = std::move(pipe), &listener] { read(rank, pipe.get(), listener); }) {}
  ~Reports() { end(); }
  void end() {
    if (thread_.joinable()) thread_.join();
  }
  std::optional<Failure> failure;  // after end()
  std::uint64_t rejected_connections = 0;

 private:
  void read(Rank rank, int pipe, const Listener& listener) {
    std::string rest;
    char some[4096];
    for (ssize_t n = 0; (n = ::read(pipe, some, sizeof some)) > 0;) {
      rest.append(some, static_cast<std::size_t>(n));
      for (std::size_t end = 0; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
        hear(rank, json::parse(rest.substr(0, end), nullptr, /*allow_exceptions=*/false), listener);
      }
    }
  }
  void hear(Rank rank, const json& line, const Listener& listener) {
    if (line.is_discarded()) return;
    if (line.contains("failure")) {
      failure = failure_from_json(line);
    } else if (line.contains(kRejectedConnections)) {
      rejected_connections += line[kRejectedConnections].get<std::uint64_t>();
    } else {
      listener.on_report(rank, line);
    }
  }

  std::thread thread_;
};

}  // namespace

std::vector<int> hosts_of(rendezvous::Meeting& meeting) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const std::string& id : gather(meeting, host_id())) {
    hosts.push_back(numbers.try_emplace(id, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

std::unique_ptr<Joined> join(rendezvous::Meeting& meeting, const JobSpec* spec) {
  json mine = {{"version", kVersion}};
  if (meeting.rank() == Rank{0}) {
    TUTTI_CHECK(spec != nullptr, "rank 0 says what is done");
    mine["spec"] = to_json(*spec);
    mine["secret"] = bytes_to_json(net::make_secret());
  }
  const auto texts = gather(meeting, mine.dump());
  require_one_version(texts);
  const json told = json::parse(texts.front());
  return std::make_unique<Member>(meeting, spec_from_json(told.at("spec")),
                                  digest_from_json(told.at("secret")).value(), hosts_of(meeting));
}

void call_off(rendezvous::Meeting& meeting, const std::string& why, int exit_code) {
  meeting.all_gather(fmt::format("{}{} {}", kCalledOff, exit_code, why));
}

Outcome run_joined(rendezvous::Meeting& meeting, const JobSpec* spec, const Listener& listener,
                   const std::function<int(const WorkerJob&)>& work, ProcessSignals* signals) {
  const auto joined = join(meeting, spec);
  WorkerJob job = joined->job();
  const net::StatusBoard board = open_board(job);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  UniqueFd reported(ends[0]);
  UniqueFd report(ends[1]);
  if (signals != nullptr)
    signals->pass_on_to(board, job.rank, observe::JsonlSink(duplicate(report.get()), "the report"));
  // From here on somebody reads until the other ends are closed, which `work` and leaving the board do.
  Reports reports(job.rank, std::move(reported), listener);
  const struct LeaveBoard {
    ProcessSignals* signals;
    int operator()() const { return signals != nullptr ? signals->leave_board() : 0; }
    ~LeaveBoard() { (*this)(); }
  } leave_board{signals};
  job.report_fd = report.release();
  Outcome outcome;
  outcome.exit_code = work(job);
  const int signal = leave_board();
  reports.end();
  if (reports.failure) outcome.line = reports.failure->what;
  if (reports.failure) outcome.would_fail_again = reports.failure->kind == Failure::Kind::nonfinite;
  if (outcome.exit_code != 0) return outcome;
  // Servers have no part in a stop, and a signal may have come to some processes alone.
  const bool stopped = board.requests().met(net::Request::stop);
  const json mine = {{"rejected_connections", reports.rejected_connections},
                     {"interrupted_by", !stopped      ? 0
                                        : signal != 0 ? signal
                                                      : SIGTERM}};
  int interrupted_by = 0;
  std::uint64_t rejected_connections = 0;
  for (const auto& text : gather(meeting, mine.dump())) {
    const json told = json::parse(text);
    rejected_connections += told.at("rejected_connections").get<std::uint64_t>();
    interrupted_by = std::max(interrupted_by, told.at("interrupted_by").get<int>());
  }
  outcome = outcome_of({}, interrupted_by, /*stopped=*/false, meeting.world());
  outcome.rejected_connections = rejected_connections + joined->close_rendezvous();
  return outcome;
}

}  // namespace tutti::launch
