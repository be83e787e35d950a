#include "launch/hosts.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/process.h"
#include "base/version.h"
#include "launch/agent.h"
#include "launch/host_job.h"
#include "launch/interruption.h"
#include "launch/line_writer.h"
#include "launch/output_reader.h"
#include "launch/spawn.h"
#include "net/wire.h"
#include "rendezvous/rendezvous.h"

namespace tutti::launch {

namespace asio = boost::asio;
using boost::system::error_code;
using nlohmann::json;

namespace {

constexpr auto kLocalHost = "localhost";

// Until an agent has said who it is: ssh's own time to connect, and some for the program to start.
constexpr auto kTimeToConnect = std::chrono::seconds(6);
constexpr auto kTimeToHello = std::chrono::seconds(9);

// How long what a dead one has said may take to arrive.
constexpr auto kTimeForOutput = std::chrono::seconds(2);

// How long an agent may look for data, and read it, before its ranks start: it says nothing meanwhile.
constexpr Clock::duration kTimeToPrepare = std::chrono::minutes(10);

// How long agents may take to end everything when the job is over.
constexpr auto kTimeToEnd = std::chrono::seconds(6);

// An agent's line holds what its ranks show, or a line that one of them printed.
constexpr std::size_t kLongestFromAgent = 8 << 20;

std::string quoted_for_shell(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// "rank 3", "ranks 0 to 3" or "ranks 0, 1, 4".
std::string names_of(const std::vector<Rank>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", to_int(ranks[0]));
  std::string names;
  bool in_a_row = true;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    in_a_row = in_a_row && to_int(ranks[i]) == to_int(ranks[0]) + static_cast<int>(i);
    names += fmt::format("{}{}", i == 0 ? "" : ", ", to_int(ranks[i]));
  }
  if (in_a_row) return fmt::format("ranks {} to {}", to_int(ranks.front()), to_int(ranks.back()));
  return "ranks " + names;
}

// One host, its agent, and the connection to it.
struct Remote {
  HostPart part;
  pid_t pid = -1;
  std::unique_ptr<asio::posix::stream_descriptor> death = nullptr;
  std::unique_ptr<asio::steady_timer> time_for_output = nullptr;  // after its death
  int status = 0;                                                 // that it ended with
  std::shared_ptr<LineWriter> to_agent = nullptr;
  std::optional<AgentHello> hello = {};
  std::string last_error = {};  // line that ssh or the agent wrote to standard error
  Clock::duration silent = {};
  json board = json::array();  // what its ranks showed last
  bool done = false;           // it has said how everything there ended
  bool output_ended = false;   // nothing more is heard of it
  bool over = false;           // it is dead, and all that it said is heard
  bool is_local() const { return part.name == kLocalHost; }
  bool alive() const { return pid > 0; }
};

class JobOnHosts {
 public:
  JobOnHosts(const JobSpec& spec, const std::vector<HostPart>& hosts, const HostOptions& options,
             const Listener& listener)
      : spec_(spec),
        options_(options),
        listener_(listener),
        interruption_(
            io_, spec.saves_when_asked, listener, [this](net::Request request) { ask(request); },
            [this] { stop_all(); }) {
    for (const HostPart& part : hosts) {
      remotes_.push_back({part});
      for (const Rank r : part.ranks) ends_.push_back({.rank = r, .server = to_int(r) >= spec.workers});
    }
    std::ranges::sort(ends_, {}, &RankEnd::rank);
  }
  ~JobOnHosts() {
    for (Remote& r : remotes_) kill(r);
  }
  JobOnHosts(const JobOnHosts&) = delete;
  JobOnHosts& operator=(const JobOnHosts&) = delete;

  Outcome run() {
    for (std::size_t i = 0; i < remotes_.size(); ++i) start_agent(i);
    time_to_hello_.expires_after(kTimeToHello);
    time_to_hello_.async_wait([this](error_code e) {
      if (!e) name_silent_hosts();
    });
    on_time();
    io_.run();
    if (refused_) std::rethrow_exception(refused_);
    auto outcome = outcome_of(ends_, interruption_.signal(), stopping_, static_cast<int>(ends_.size()));
    if (!host_failure_.empty()) {
      outcome.line = host_failure_;
      if (outcome.exit_code == 0) outcome.exit_code = 1;
    }
    outcome.rejected_connections = rejected_connections_;
    if (rendezvous_) outcome.rejected_connections += rendezvous_->rejected_connections();
    return outcome;
  }

 private:
  void start_agent(std::size_t i) {
    Remote& r = remotes_[i];
    std::vector<std::string> arguments;
    std::string program = spec_.program;
    if (r.is_local()) {
      arguments = {"agent"};
    } else {
      program = options_.ssh;
      arguments = {"-T", "-o", "BatchMode=yes", "-o",
                   fmt::format("ConnectTimeout={}", kTimeToConnect.count())};
      if (!options_.ssh_config.empty()) arguments.insert(arguments.end(), {"-F", options_.ssh_config});
      arguments.insert(arguments.end(), {"--", r.part.name, quoted_for_shell(options_.program) + " agent"});
    }
    Spawned child = spawn(program, arguments, {.input = true});
    r.pid = child.pid;
    r.death = std::make_unique<asio::posix::stream_descriptor>(io_, child.pidfd.release());
    r.to_agent = LineWriter::to(io_, std::move(child.in));
    r.time_for_output = std::make_unique<asio::steady_timer>(io_);
    OutputReader::start(
        io_, std::move(child.out), [this, i](const std::string& line) { on_line(i, line); },
        kLongestFromAgent,
        [this, i] {
          remotes_[i].output_ended = true;
          if (!remotes_[i].alive()) on_over(remotes_[i]);
        });
    OutputReader::start(io_, std::move(child.error), [this, i](const std::string& line) {
      remotes_[i].last_error = line;
      if (remotes_[i].hello) listener_.on_output(remotes_[i].part.ranks.front(), true, line);
    });
    r.death->async_wait(asio::posix::stream_descriptor::wait_read, [this, i](error_code e) {
      if (!e && remotes_[i].alive()) on_death(remotes_[i]);
    });
  }

  // What it said last may still be on its way; somebody else may hold its output open for ever.
  void on_death(Remote& r) {
    ::waitpid(r.pid, &r.status, 0);
    r.pid = -1;
    r.death->close();
    r.to_agent->close();
    if (r.output_ended) return on_over(r);
    r.time_for_output->expires_after(kTimeForOutput);
    r.time_for_output->async_wait([this, &r](error_code e) {
      if (!e) on_over(r);
    });
  }

  void on_over(Remote& r) {
    if (std::exchange(r.over, true)) return;
    r.time_for_output->cancel();
    if (!r.done) {
      const int code = WIFEXITED(r.status) ? WEXITSTATUS(r.status) : -1;
      // What a shell exits with if there is no such program, or it is none.
      const bool no_program = !r.hello && (code == 127 || code == 126);
      if (no_program && !refused_) {
        refused_ = std::make_exception_ptr(ConfigError(
            fmt::format("host {} has no program {} that can be run", r.part.name, options_.program)));
      }
      lose(r, fmt::format("{}: {} ended{}", r.hello ? "was lost" : "cannot be reached",
                          r.is_local() ? "its agent" : "ssh",
                          code >= 0 ? fmt::format(" with exit code {}", code) : ""));
    }
    if (std::ranges::all_of(remotes_, &Remote::over)) wind_up();
  }

  // The host takes no part any more: the others end.
  void lose(const Remote& r, const std::string& how) {
    if (host_failure_.empty() && !stopping_) {
      host_failure_ = fmt::format("host {} ({}) {}{}", r.part.name, names_of(r.part.ranks), how,
                                  r.last_error.empty() ? "" : fmt::format(" ({})", r.last_error));
    }
    end_all();
  }

  void on_line(std::size_t i, const std::string& line) {
    Remote& r = remotes_[i];
    r.silent = {};
    const auto message = json::parse(line, nullptr, false);
    if (message.is_discarded() || !message.is_object()) {
      r.last_error = line.substr(0, 200);  // a greeting of the remote shell, or its complaint
      return;
    }
    try {
      r.hello ? follow(r, message) : greet(r, message);
    } catch (const json::exception& e) {
      lose(r, fmt::format("sent a message that is none of ours: {}", e.what()));
    }
  }

  void greet(Remote& r, const json& message) {
    if (!message.contains("agent")) return;
    const auto hello = hello_from_json(message);
    if (hello.version != kVersion) {
      refused_ = std::make_exception_ptr(ConfigError(
          fmt::format("host {} has tutti {} at {}; this is {}: the same version must be on all hosts",
                      r.part.name, hello.version, options_.program, kVersion)));
      return end_all();
    }
    r.hello = hello;
    r.last_error.clear();  // a greeting, at most
    if (std::ranges::all_of(remotes_, [](const Remote& x) { return x.hello.has_value(); })) start_job();
  }

  // Who has not answered until now will not.
  void name_silent_hosts() {
    for (const Remote& r : remotes_) {
      if (!r.hello) lose(r, fmt::format("has not answered within {} s", kTimeToHello.count()));
    }
  }

  // All hosts are there: now they learn of the job.
  void start_job() {
    time_to_hello_.cancel();
    // Ranks find each other at the address by which another host has been reached from here.
    std::string here = "127.0.0.1";
    for (const Remote& r : remotes_) {
      // What a local one sees is the connection by which its user has come.
      const bool has_come_far = !r.hello->caller.empty() && !net::is_loopback(r.hello->caller);
      if (!r.is_local() && has_come_far) here = r.hello->caller;
    }
    AgentJob job;
    job.spec = spec_;
    job.spec.transport = "tcp";
    const int world = spec_.workers + spec_.servers;
    job.hosts.resize(static_cast<std::size_t>(world));
    for (std::size_t host = 0; host < remotes_.size(); ++host) {
      for (const Rank r : remotes_[host].part.ranks) {
        job.hosts[static_cast<std::size_t>(to_int(r))] = static_cast<int>(host);
        const int colocated = to_int(r) + spec_.workers;
        if (spec_.colocate) job.hosts[static_cast<std::size_t>(colocated)] = static_cast<int>(host);
      }
    }
    job.folder = std::filesystem::current_path().string();
    try {
      for (const int host : job.hosts) job.spec.places.push_back({.address = here, .host = host});
      job.spec.wire = net::name_of(net::resolve_wire(
          net::parse_wire(spec_.wire), net::is_loopback(here) ? net::Reach::one_host : net::Reach::hosts));
      const WorkerJob common = common_of(job.spec);
      job.secret = common.secret;
      job.digest = digest_of(common);
      rendezvous_ = std::make_unique<rendezvous::Rendezvous>(io_, here, common.world, credentials_of(common),
                                                             spec_.ports);
    } catch (const std::exception&) {
      refused_ = std::current_exception();
      return end_all();
    }
    job.rendezvous = rendezvous_->endpoint();
    for (Remote& r : remotes_) {
      job.ranks = r.part.ranks;
      // One that is reached over loopback is this host.
      const bool is_here = r.is_local() || r.hello->address.empty() || net::is_loopback(r.hello->address);
      job.address = is_here ? here : r.hello->address;
      r.to_agent->write(to_json(job));
    }
  }

  void follow(Remote& r, const json& message) {
    if (message.contains("output")) {
      const auto& o = message["output"];
      listener_.on_output(Rank{o.at(0).get<int>()}, o.at(1), o.at(2));
    } else if (message.contains("report")) {
      listener_.on_report(Rank{message["report"].at(0).get<int>()}, message["report"].at(1));
    } else if (message.contains("board")) {
      r.board = message["board"];
    } else if (message.contains("ended")) {
      on_end(rank_end_from_json(message));
    } else if (message.contains("decided")) {
      tell_others(r, message);
    } else if (message.contains("told")) {
      on_told(message["told"]);
    } else if (message.contains("failed")) {
      const auto failure = failure_from_json(message["failed"]);
      lose(r, "failed: " + failure.what);
      if (failure.kind == Failure::Kind::usage)
        refused_ =
            std::make_exception_ptr(ConfigError(fmt::format("host {}: {}", r.part.name, failure.what)));
    } else if (message.contains("done")) {
      r.done = true;
      rejected_connections_ += message["done"].at("rejected_connections").get<std::uint64_t>();
    }
  }

  void on_end(RankEnd end) {
    const auto known = std::ranges::find(ends_, end.rank, &RankEnd::rank);
    if (known == ends_.end()) return;
    // Agents count their own; the order of all is that in which we hear.
    end.order = known->order != 0 ? known->order : (end.running ? 0 : ++ended_);
    *known = end;
    if (end.exit_code != 0 || end.signal != 0) end_all();
  }

  // What one host's ranks have decided, the others must know before any of them goes on.
  void tell_others(const Remote& from, const json& message) {
    waiting_for_ = {&from, message["decided"], 0};
    for (Remote& r : remotes_) {
      if (&r == &from || !r.alive()) continue;
      ++waiting_for_.hosts;
      r.to_agent->write(message);
    }
    if (waiting_for_.hosts == 0) on_told(message["decided"]);
  }

  void on_told(const json& word) {
    if (word != waiting_for_.word || --waiting_for_.hosts > 0) return;
    waiting_for_.from->to_agent->write({{"known", word}});
  }

  void ask(net::Request request) {
    if (!rendezvous_) return request == net::Request::stop ? stop_all() : void();  // there is nothing to save
    for (Remote& r : remotes_) r.to_agent->write({{"ask", static_cast<int>(request)}});
  }

  void stop_all() {
    stopping_ = true;
    for (Remote& r : remotes_) r.hello ? r.to_agent->write({{"stop", true}}) : kill(r);
    end_all();
  }

  // Something has failed: whoever is left ends, and has a while for it.
  void end_all() {
    if (ending_) return;
    ending_ = true;
    time_to_hello_.cancel();
    for (Remote& r : remotes_) {
      if (!rendezvous_) {
        r.to_agent->close();  // no job has begun: the end of its input ends an agent
      } else {
        r.to_agent->write({{"end", true}});
      }
    }
    time_to_end_.expires_after(rendezvous_ ? kTimeToEnd : std::chrono::seconds(1));
    time_to_end_.async_wait([this](error_code e) {
      if (e) return;
      for (Remote& r : remotes_) kill(r);
      wind_up();
    });
  }

  void kill(Remote& r) {
    if (!r.alive()) return;
    ::kill(r.pid, SIGKILL);
    ::waitpid(r.pid, nullptr, 0);
    r.pid = -1;
  }

  // Ten times a second: what the ranks of each host show goes to the others, and who is silent is found.
  void on_time() {
    const auto now = Clock::now();
    // While we did not run ourselves (Ctrl-Z), nobody could be heard.
    const auto passed = std::min<Clock::duration>(now - std::exchange(last_time_, now), 2 * kBoardPeriod);
    for (Remote& r : remotes_) {
      if (!r.alive() || !r.hello || r.done) continue;
      r.silent += passed;
      if (r.silent <= (r.board.empty() ? kTimeToPrepare : kAgentSilence)) continue;
      lose(r, fmt::format("has been silent for {:.1f} s", std::chrono::duration<double>(r.silent).count()));
      kill(r);
      r.over = true;
    }
    if (std::ranges::all_of(remotes_, &Remote::over)) return wind_up();
    for (const Remote& to : remotes_) {
      auto entries = json::array();
      for (const Remote& from : remotes_) {
        if (&from != &to) entries.insert(entries.end(), from.board.begin(), from.board.end());
      }
      if (to.hello) to.to_agent->write({{"board", entries}});
    }
    timer_.expires_after(kBoardPeriod);
    timer_.async_wait([this](error_code e) {
      if (!e) on_time();
    });
  }

  void wind_up() {
    timer_.cancel();
    time_to_hello_.cancel();
    time_to_end_.cancel();
    interruption_.end();
    if (rendezvous_) rendezvous_->close();
    io_.stop();
  }

  const JobSpec& spec_;
  const HostOptions& options_;
  const Listener& listener_;
  asio::io_context io_;
  asio::steady_timer timer_{io_};
  asio::steady_timer time_to_hello_{io_};
  asio::steady_timer time_to_end_{io_};
  Interruption interruption_;
  std::unique_ptr<rendezvous::Rendezvous> rendezvous_;
  std::vector<Remote> remotes_;
  std::vector<RankEnd> ends_;
  // A decision on its way: whose, which, and how many hosts have not said that they have it.
  struct {
    const Remote* from = nullptr;
    json word;
    int hosts = 0;
  } waiting_for_;
  std::uint64_t rejected_connections_ = 0;
  int ended_ = 0;
  bool ending_ = false;
  bool stopping_ = false;
  std::string host_failure_;
  std::exception_ptr refused_;
  Clock::time_point last_time_ = Clock::now();
};

}  // namespace

Outcome run_on_hosts(const JobSpec& spec, const std::vector<HostPart>& hosts, const HostOptions& options,
                     const Listener& listener) {
  // An agent that has gone is noticed where we read.
  struct IgnoredPipe {
    void (*before)(int) = ::signal(SIGPIPE, SIG_IGN);
    ~IgnoredPipe() { ::signal(SIGPIPE, before); }
  } const ignored;
  auto outcome = JobOnHosts(spec, hosts, options, listener).run();
  // As in run().
  if (spec.saves_when_asked) ::signal(SIGUSR1, SIG_IGN);
  return outcome;
}

}  // namespace tutti::launch
