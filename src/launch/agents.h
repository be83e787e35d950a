// The agents of several hosts (launch/agent.h), and the connections to them.
//
// Every agent is in one of these states, in this order: started; greeted, when it has said who it is; over,
// when it is dead and all that it said was heard. One that ends before its owner has said that it may, says
// nothing for too long, has another version or cannot be started is lost: that is told once, with the reason.
#pragma once

#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/agent.h"
#include "launch/hosts.h"
#include "launch/line_writer.h"
#include "launch/spawn.h"

namespace tutti::launch {

// Why an agent is lost, as what follows the host's name.
struct Loss {
  std::string how;       // "cannot be reached: ssh ended with exit code 255 (...)"
  bool refused = false;  // the host is not set up for this job, and would not be the next time either
  std::string other_version = {};  // of tutti there, if that is why
};

// Hosts go by their number in the order given. Runs on the thread that runs `io`.
class Agents {
 public:
  // What its owner hears. All must be set.
  struct Events {
    std::function<void(std::size_t host)> on_hello;
    std::function<void(std::size_t host, const nlohmann::json&)> on_message;       // that follows the hello
    std::function<void(std::size_t host, const std::string& line)> on_error_line;  // likewise
    std::function<void(std::size_t host, const Loss&)> on_loss;
    std::function<void()> on_all_over;
  };

  // `program` is this executable, for the agent of "localhost".
  Agents(boost::asio::io_context& io, const std::vector<std::string>& hosts, std::string program,
         HostOptions options, Events events);
  // Kills what is left, and has waited for every child.
  ~Agents();
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  // Starts one on each host. Throws RunError.
  void start();

  std::size_t size() const { return connections_.size(); }
  const std::string& name(std::size_t host) const { return connections_[host].name; }
  bool is_local(std::size_t host) const;
  // What it said of itself; nothing before.
  const std::optional<AgentHello>& hello(std::size_t host) const { return connections_[host].hello; }
  bool all_greeted() const;
  bool is_alive(std::size_t host) const { return connections_[host].pid > 0; }

  // Never blocks; nothing happens where the agent is dead.
  void write(std::size_t host, const nlohmann::json& message);
  // An agent without a job ends at the end of its input.
  void close_input(std::size_t host);
  // It has said how everything there ended: its death is no loss.
  void excuse(std::size_t host) { connections_[host].excused = true; }
  // Nobody listens to it any more. Killing ssh is the end of a remote agent's input.
  void dismiss(std::size_t host);
  void kill(std::size_t host);
  // Watches no more and waits for nobody; io.run() can return.
  void stop_watching();

 private:
  struct Connection {
    std::string name;
    pid_t pid = -1;
    std::unique_ptr<boost::asio::posix::stream_descriptor> death = nullptr;
    std::unique_ptr<boost::asio::steady_timer> time_for_output = nullptr;  // after its death
    int status = 0;                                                        // that it ended with
    std::shared_ptr<LineWriter> to_agent = nullptr;
    std::optional<AgentHello> hello = {};
    std::string last_error = {};  // line that ssh or the agent wrote to standard error
    Clock::duration silent = {};
    bool excused = false;
    bool output_ended = false;  // its standard output is at its end
    bool errors_ended = false;  // so is its standard error, which on another host is that of ssh
    // Why it was lost may be in the last line of its errors. Where it was not, they are not waited for: an
    // ssh that stays for the next connection keeps them open.
    bool all_output_read() const { return output_ended && (excused || errors_ended); }
    bool over = false;
  };

  void start_one(std::size_t host);
  Spawned spawn_agent(const Connection& c) const;
  void on_line(std::size_t host, const std::string& line);
  void greet(std::size_t host, const nlohmann::json& message);
  void on_death(std::size_t host);
  void on_over(std::size_t host);
  void lose(std::size_t host, Loss loss);
  void name_who_has_not_answered();
  void end_if_all_over();
  void watch();

  // One that has gone is noticed where we read, not where we write.
  struct IgnoredPipe {
    void (*before)(int) = ::signal(SIGPIPE, SIG_IGN);
    ~IgnoredPipe() { ::signal(SIGPIPE, before); }
  };

  const IgnoredPipe ignored_ = {};
  boost::asio::io_context& io_;
  const std::string program_;
  const HostOptions options_;
  const Events events_;
  boost::asio::steady_timer glance_{io_};
  boost::asio::steady_timer time_to_hello_{io_};
  std::vector<Connection> connections_;
  Clock::time_point last_glance_ = Clock::now();
};

}  // namespace tutti::launch
