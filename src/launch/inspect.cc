#include "launch/inspect.h"

#include <algorithm>
#include <limits>

#include "launch/agents.h"

namespace tutti::launch {
namespace {

using nlohmann::json;

// The quickest of so many questions is the one that nothing has held up.
constexpr int kQuestions = 8;

double now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Inspection {
 public:
  Inspection(const std::vector<std::string>& hosts, const std::string& program, const HostOptions& options,
             const std::function<void(const Inspected&)>& on_each)
      : on_each_(on_each),
        agents_(io_, hosts, program, options,
                {.on_hello = [this](std::size_t host) { ask(host); },
                 .on_message = [this](std::size_t host, const json& m) { follow(host, m); },
                 .on_error_line = [](std::size_t, const std::string&) {},
                 .on_loss = [this](std::size_t host, const Loss& loss) { lose(host, loss); },
                 .on_all_over = [this] { io_.stop(); }}) {
    for (const std::string& name : hosts) {
      found_.push_back({.name = name, .clock_error_s = std::numeric_limits<double>::infinity()});
    }
    asked_.resize(hosts.size());
  }

  std::vector<Inspected> run() {
    agents_.start();
    io_.run();
    return found_;
  }

 private:
  void ask(std::size_t host) { agents_.write(host, {{"clock", now_s()}}); }

  void follow(std::size_t host, const json& message) {
    if (!message.contains("clock") || asked_[host] == kQuestions) return;
    const double sent = message["clock"].at(0);
    const double there = message["clock"].at(1);
    const double back = now_s();
    Inspected& h = found_[host];
    if ((back - sent) / 2 < h.clock_error_s) {
      h.clock_error_s = (back - sent) / 2;
      h.clock_ahead_s = there - (sent + back) / 2;
    }
    if (++asked_[host] < kQuestions) return ask(host);
    h.hello = agents_.hello(host);
    on_each_(h);
    agents_.dismiss(host);
  }

  void lose(std::size_t host, const Loss& loss) {
    found_[host].problem = loss.how;
    found_[host].other_version = loss.other_version;
    on_each_(found_[host]);
    agents_.dismiss(host);
  }

  const std::function<void(const Inspected&)>& on_each_;
  boost::asio::io_context io_;
  std::vector<Inspected> found_;
  std::vector<int> asked_;  // by host, how often
  Agents agents_;
};

}  // namespace

std::vector<Inspected> inspect(const std::vector<std::string>& hosts, const std::string& program,
                               const HostOptions& options,
                               const std::function<void(const Inspected&)>& on_each) {
  return Inspection(hosts, program, options, on_each).run();
}

}  // namespace tutti::launch
