#include "launch/agents.h"

#include <sys/wait.h>

#include <algorithm>

#include "base/error.h"
#include "base/version.h"
#include "launch/output_reader.h"

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

// An agent's line holds what its ranks show, or a line that one of them printed.
constexpr std::size_t kLongestFromAgent = 8 << 20;

// What a shell exits with if there is no such program, or it is none.
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

std::string quoted_for_shell(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

Agents::Agents(asio::io_context& io, const std::vector<std::string>& hosts, std::string program,
               HostOptions options, Events events)
    : io_(io), program_(std::move(program)), options_(std::move(options)), events_(std::move(events)) {
  for (const std::string& name : hosts) connections_.push_back({.name = name});
}

Agents::~Agents() {
  for (std::size_t host = 0; host < size(); ++host) kill(host);
}

void Agents::start() {
  for (std::size_t host = 0; host < size(); ++host) start_one(host);
  time_to_hello_.expires_after(kTimeToHello);
  time_to_hello_.async_wait([this](error_code e) {
    if (!e) name_who_has_not_answered();
  });
  watch();
}

bool Agents::is_local(std::size_t host) const {
  return name(host) == kLocalHost;
}

bool Agents::all_greeted() const {
  return std::ranges::all_of(connections_, [](const Connection& c) { return c.hello.has_value(); });
}

Spawned Agents::spawn_agent(const Connection& c) const {
  if (c.name == kLocalHost) return spawn(program_, {"agent"}, {.input = true, .is_ours = true});
  std::vector<std::string> arguments = {"-T",
                                        "-o",
                                        "BatchMode=yes",
                                        "-o",
                                        fmt::format("ConnectTimeout={}", kTimeToConnect.count()),
                                        "-o",
                                        "ServerAliveInterval=2",
                                        "-o",
                                        "ServerAliveCountMax=3"};
  if (!options_.ssh_config.empty()) arguments.insert(arguments.end(), {"-F", options_.ssh_config});
  arguments.insert(arguments.end(), {"--", c.name, quoted_for_shell(options_.program) + " agent"});
  return spawn(options_.ssh, arguments, {.input = true});
}

void Agents::start_one(std::size_t host) {
  Connection& c = connections_[host];
  Spawned child = spawn_agent(c);
  c.pid = child.pid;
  c.death = std::make_unique<asio::posix::stream_descriptor>(io_, child.pidfd.release());
  c.to_agent = LineWriter::to(io_, std::move(child.in));
  c.time_for_output = std::make_unique<asio::steady_timer>(io_);
  OutputReader::start(
      io_, std::move(child.out), [this, host](const std::string& line) { on_line(host, line); },
      kLongestFromAgent,
      [this, host] {
        connections_[host].output_ended = true;
        if (!is_alive(host) && connections_[host].all_output_read()) on_over(host);
      });
  OutputReader::start(
      io_, std::move(child.error),
      [this, host](const std::string& line) {
        connections_[host].last_error = line;
        if (hello(host)) events_.on_error_line(host, line);
      },
      OutputReader::kLongestLine,
      [this, host] {
        connections_[host].errors_ended = true;
        if (!is_alive(host) && connections_[host].all_output_read()) on_over(host);
      });
  c.death->async_wait(asio::posix::stream_descriptor::wait_read, [this, host](error_code e) {
    if (!e && is_alive(host)) on_death(host);
  });
}

void Agents::write(std::size_t host, const json& message) {
  connections_[host].to_agent->write(message);
}

void Agents::close_input(std::size_t host) {
  connections_[host].to_agent->close();
}

void Agents::kill(std::size_t host) {
  if (!is_alive(host)) return;
  Connection& c = connections_[host];
  ::kill(c.pid, SIGKILL);
  ::waitpid(c.pid, nullptr, 0);
  c.pid = -1;
}

void Agents::stop_watching() {
  glance_.cancel();
  time_to_hello_.cancel();
}

// What it said last may still be on its way; somebody else may hold its output open for ever.
void Agents::on_death(std::size_t host) {
  Connection& c = connections_[host];
  ::waitpid(c.pid, &c.status, 0);
  c.pid = -1;
  c.death->close();
  c.to_agent->close();
  if (c.all_output_read()) return on_over(host);
  c.time_for_output->expires_after(kTimeForOutput);
  c.time_for_output->async_wait([this, host](error_code e) {
    if (!e) on_over(host);
  });
}

void Agents::on_over(std::size_t host) {
  Connection& c = connections_[host];
  if (std::exchange(c.over, true)) return;
  c.time_for_output->cancel();
  if (!c.excused) {
    const int code = WIFEXITED(c.status) ? WEXITSTATUS(c.status) : -1;
    if (!c.hello && (code == kNotFound || code == kNotExecutable)) {
      lose(host, {fmt::format("has no program {} that can be run", options_.program), true});
    } else {
      lose(host, {fmt::format("{}: {} ended{}", c.hello ? "was lost" : "cannot be reached",
                              is_local(host) ? "its agent" : "ssh",
                              code >= 0 ? fmt::format(" with exit code {}", code) : "")});
    }
  }
  end_if_all_over();
}

void Agents::end_if_all_over() {
  if (!std::ranges::all_of(connections_, &Connection::over)) return;
  stop_watching();
  events_.on_all_over();
}

void Agents::dismiss(std::size_t host) {
  kill(host);
  connections_[host].excused = true;
  connections_[host].over = true;
  end_if_all_over();
}

void Agents::lose(std::size_t host, Loss loss) {
  Connection& c = connections_[host];
  if (std::exchange(c.excused, true)) return;
  if (!loss.refused && !c.last_error.empty()) loss.how += fmt::format(" ({})", c.last_error);
  events_.on_loss(host, loss);
}

void Agents::on_line(std::size_t host, const std::string& line) {
  Connection& c = connections_[host];
  c.silent = {};
  if (c.excused && !c.hello) return;  // lost: whatever it says comes too late
  const auto message = json::parse(line, nullptr, false);
  if (message.is_discarded() || !message.is_object()) {
    c.last_error = line.substr(0, 200);  // a greeting of the remote shell, or its complaint
    return;
  }
  try {
    c.hello ? events_.on_message(host, message) : greet(host, message);
  } catch (const json::exception& e) {
    lose(host, {fmt::format("sent a message that is none of ours: {}", e.what())});
  }
}

void Agents::greet(std::size_t host, const json& message) {
  if (!message.contains("agent")) return;
  Connection& c = connections_[host];
  const std::string version = message["agent"].at("version");
  if (version != kVersion) {
    return lose(host, {fmt::format("has tutti {} at {}; this is {}: the same version must be on all hosts",
                                   version, options_.program, kVersion),
                       true, version});
  }
  c.hello = hello_from_json(message);
  c.last_error.clear();  // a greeting, at most
  if (all_greeted()) time_to_hello_.cancel();
  events_.on_hello(host);
}

// Who has not answered until now will not.
void Agents::name_who_has_not_answered() {
  for (std::size_t host = 0; host < size(); ++host) {
    if (!hello(host)) lose(host, {fmt::format("has not answered within {} s", kTimeToHello.count())});
  }
}

// Ten times a second.
void Agents::watch() {
  const auto now = Clock::now();
  // While we did not run ourselves (Ctrl-Z), nobody could be heard.
  const auto passed = std::min<Clock::duration>(now - std::exchange(last_glance_, now), 2 * kBoardPeriod);
  for (std::size_t host = 0; host < size(); ++host) {
    Connection& c = connections_[host];
    if (!is_alive(host) || !c.hello || c.excused) continue;
    c.silent += passed;
    if (c.silent <= kAgentSilence) continue;
    lose(host,
         {fmt::format("has been silent for {:.1f} s", std::chrono::duration<double>(c.silent).count())});
    dismiss(host);
  }
  if (std::ranges::all_of(connections_, &Connection::over)) return;
  glance_.expires_after(kBoardPeriod);
  glance_.async_wait([this](error_code e) {
    if (!e) watch();
  });
}

}  // namespace tutti::launch
