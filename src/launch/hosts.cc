#include "launch/hosts.h"

#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <memory>

#include "base/crypto.h"
#include "base/error.h"
#include "base/file.h"
#include "launch/agent.h"
#include "launch/agents.h"
#include "launch/host_job.h"
#include "launch/interruption.h"
#include "net/wire.h"
#include "rendezvous/rendezvous.h"

namespace tutti::launch {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using boost::system::error_code;
using nlohmann::json;

namespace {

// How long agents may take to end everything when the job is over.
constexpr auto kTimeToEnd = std::chrono::seconds(6);

// A host may have to read much data before it is ready.
constexpr auto kTimeToPrepare = std::chrono::minutes(10);

// In a folder that hosts must share, while they look whether they do.
constexpr auto kToken = ".tutti-shared-";

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

std::vector<std::string> names_of(const std::vector<HostPart>& hosts) {
  std::vector<std::string> names;
  for (const HostPart& part : hosts) names.push_back(part.name);
  return names;
}

class JobOnHosts {
 public:
  JobOnHosts(const JobSpec& spec, const std::vector<HostPart>& hosts, const HostOptions& options,
             const Listener& listener)
      : spec_(spec),
        parts_(hosts),
        listener_(listener),
        interruption_(
            io_, spec.saves_when_asked, listener, [this](net::Request request) { return ask(request); },
            [this] { stop_all(); }),
        boards_(hosts.size(), json::array()),
        ready_(hosts.size(), false),
        agents_(io_, names_of(hosts), spec.program, options,
                {.on_hello =
                     [this](std::size_t) {
                       if (agents_.all_greeted()) start_job();
                     },
                 .on_message = [this](std::size_t host, const json& message) { follow(host, message); },
                 .on_error_line =
                     [this](std::size_t host, const std::string& line) {
                       listener_.on_output(parts_[host].ranks.front(), true, line);
                     },
                 .on_loss = [this](std::size_t host, const Loss& loss) { lose(host, loss); },
                 .on_all_over = [this] { wind_up(); }}) {
    for (const HostPart& part : hosts) {
      for (const Rank r : part.ranks) ends_.push_back({.rank = r, .server = to_int(r) >= spec.workers});
    }
    std::ranges::sort(ends_, {}, &RankEnd::rank);
  }

  Outcome run() {
    agents_.start();
    io_.run();
    remove_tokens();
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
  // The host takes no part any more: the others end.
  void lose(std::size_t host, const Loss& loss) {
    const std::string& name = agents_.name(host);
    if (loss.refused && !refused_) {
      refused_ = std::make_exception_ptr(ConfigError(fmt::format("host {} {}", name, loss.how)));
    }
    if (host_failure_.empty() && !stopping_) {
      host_failure_ = fmt::format("host {} ({}) {}", name, names_of(parts_[host].ranks), loss.how);
    }
    end_all();
  }

  // Ranks find each other at the address by which another host has been reached from here.
  std::string address_of_launcher() const {
    std::string here = "127.0.0.1";
    for (std::size_t host = 0; host < agents_.size(); ++host) {
      const std::string& caller = agents_.hello(host)->caller;
      // What a local one sees is the connection by which its user has come.
      if (!agents_.is_local(host) && !caller.empty() && !net::is_loopback(caller)) here = caller;
    }
    return here;
  }

  // The number of each rank's host.
  std::vector<int> hosts_of_ranks() const {
    std::vector<int> hosts(static_cast<std::size_t>(spec_.workers + spec_.servers));
    for (std::size_t host = 0; host < parts_.size(); ++host) {
      for (const Rank r : parts_[host].ranks) {
        hosts[static_cast<std::size_t>(to_int(r))] = static_cast<int>(host);
        const int colocated = to_int(r) + spec_.workers;
        if (spec_.colocate) hosts[static_cast<std::size_t>(colocated)] = static_cast<int>(host);
      }
    }
    return hosts;
  }

  // All hosts are there: now they learn of the job.
  void start_job() {
    const std::string here = address_of_launcher();
    AgentJob job;
    job.spec = spec_;
    job.spec.transport = "tcp";
    job.hosts = hosts_of_ranks();
    job.folder = fs::current_path().string();
    try {
      job.shared_text = to_hex(net::make_secret());
      job.shared_files = tokens_ = write_tokens(job.shared_text);
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
    for (std::size_t host = 0; host < agents_.size(); ++host) {
      job.ranks = parts_[host].ranks;
      // One that is reached over loopback is this host.
      const std::string& address = agents_.hello(host)->address;
      const bool is_here = agents_.is_local(host) || address.empty() || net::is_loopback(address);
      job.address = is_here ? here : address;
      agents_.write(host, to_json(job));
    }
    time_to_prepare_.expires_after(kTimeToPrepare);
    time_to_prepare_.async_wait([this](error_code e) {
      if (!e) name_who_is_not_ready();
    });
    relay_boards();
  }

  std::vector<std::string> write_tokens(const std::string& text) const {
    std::vector<std::string> files;
    for (const std::string& folder : spec_.shared_folders) {
      // A name that nobody has looked for before: file systems of several hosts remember what was not there.
      files.push_back(fs::absolute(fs::path(folder) / (kToken + text.substr(0, 8))).string());
      write_file_atomically(files.back(), text);
    }
    return files;
  }
  void remove_tokens() {
    std::error_code gone;
    for (const std::string& file : std::exchange(tokens_, {})) fs::remove(file, gone);
  }

  void follow(std::size_t host, const json& message) {
    if (message.contains("output")) {
      const auto& o = message["output"];
      listener_.on_output(Rank{o.at(0).get<int>()}, o.at(1), o.at(2));
    } else if (message.contains("report")) {
      listener_.on_report(Rank{message["report"].at(0).get<int>()}, message["report"].at(1));
    } else if (message.contains("board")) {
      boards_[host] = message["board"];
    } else if (message.contains("ready")) {
      on_ready(host);
    } else if (message.contains("ended")) {
      on_end(rank_end_from_json(message));
    } else if (message.contains("decided")) {
      tell_others(host, message);
    } else if (message.contains("told")) {
      on_told(message["told"]);
    } else if (message.contains("failed")) {
      const auto failure = failure_from_json(message["failed"]);
      if (failure.kind == Failure::Kind::usage && !refused_) {
        refused_ = std::make_exception_ptr(
            ConfigError(fmt::format("host {}: {}", agents_.name(host), failure.what)));
      }
      lose(host, {"failed: " + failure.what});
    } else if (message.contains("done")) {
      agents_.excuse(host);
      rejected_connections_ += message["done"].at("rejected_connections").get<std::uint64_t>();
    }
  }

  void on_ready(std::size_t host) {
    ready_[host] = true;
    if (std::ranges::count(ready_, false) > 0 || ending_) return;
    time_to_prepare_.cancel();
    remove_tokens();
    started_ = true;
    tell_all({{"go", true}});
    if (saves_at_start_) ask(net::Request::save);
  }

  void name_who_is_not_ready() {
    std::vector<std::string> names;
    const auto first = static_cast<std::size_t>(std::ranges::find(ready_, false) - ready_.begin());
    for (std::size_t host = first + 1; host < agents_.size(); ++host) {
      if (!ready_[host]) names.push_back(agents_.name(host));
    }
    lose(first, {fmt::format("is not ready after {} minutes{}{}", kTimeToPrepare.count(),
                             names.empty() ? "" : "; nor is ", fmt::join(names, ", nor "))});
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
  void tell_others(std::size_t from, const json& message) {
    waiting_for_ = {from, message["decided"], 0};
    for (std::size_t host = 0; host < agents_.size(); ++host) {
      if (host == from || !agents_.is_alive(host)) continue;
      ++waiting_for_.hosts;
      agents_.write(host, message);
    }
    if (waiting_for_.hosts == 0) on_told(message["decided"]);
  }

  void on_told(const json& word) {
    if (word != waiting_for_.word || --waiting_for_.hosts > 0) return;
    agents_.write(waiting_for_.from, {{"known", word}});
  }

  // Before ranks have started there is nothing to save; whether they have.
  bool ask(net::Request request) {
    if (started_) {
      tell_all({{"ask", static_cast<int>(request)}});
    } else if (request == net::Request::save) {
      saves_at_start_ = true;
    }
    return started_;
  }

  void tell_all(const json& message) {
    for (std::size_t host = 0; host < agents_.size(); ++host) agents_.write(host, message);
  }

  void stop_all() {
    stopping_ = true;
    for (std::size_t host = 0; host < agents_.size(); ++host) {
      agents_.hello(host) ? agents_.write(host, {{"stop", true}}) : agents_.kill(host);
    }
    end_all();
  }

  // Something has failed: whoever is left ends, and has a while for it.
  void end_all() {
    if (ending_) return;
    ending_ = true;
    if (rendezvous_) {
      tell_all({{"end", true}});
    } else {
      for (std::size_t host = 0; host < agents_.size(); ++host) agents_.close_input(host);
    }
    time_to_end_.expires_after(rendezvous_ ? kTimeToEnd : std::chrono::seconds(1));
    time_to_end_.async_wait([this](error_code e) {
      if (e) return;
      for (std::size_t host = 0; host < agents_.size(); ++host) agents_.kill(host);
      wind_up();
    });
  }

  // Ten times a second: what the ranks of each host show goes to the others.
  void relay_boards() {
    for (std::size_t to = 0; to < agents_.size(); ++to) {
      auto entries = json::array();
      for (std::size_t from = 0; from < agents_.size(); ++from) {
        if (from != to) entries.insert(entries.end(), boards_[from].begin(), boards_[from].end());
      }
      agents_.write(to, {{"board", entries}});
    }
    timer_.expires_after(kBoardPeriod);
    timer_.async_wait([this](error_code e) {
      if (!e) relay_boards();
    });
  }

  void wind_up() {
    timer_.cancel();
    time_to_prepare_.cancel();
    time_to_end_.cancel();
    agents_.stop_watching();
    interruption_.end();
    if (rendezvous_) rendezvous_->close();
    io_.stop();
  }

  const JobSpec& spec_;
  const std::vector<HostPart> parts_;
  const Listener& listener_;
  asio::io_context io_;
  asio::steady_timer timer_{io_};
  asio::steady_timer time_to_prepare_{io_};
  asio::steady_timer time_to_end_{io_};
  Interruption interruption_;
  std::unique_ptr<rendezvous::Rendezvous> rendezvous_;
  std::vector<json> boards_;  // by host, what its ranks showed last
  std::vector<bool> ready_;   // by host
  Agents agents_;
  std::vector<RankEnd> ends_;
  // A decision on its way: whose, which, and how many hosts have not said that they have it.
  struct {
    std::size_t from = 0;
    json word;
    int hosts = 0;
  } waiting_for_;
  std::vector<std::string> tokens_;  // files in folders that hosts must share, until all have seen them
  std::uint64_t rejected_connections_ = 0;
  int ended_ = 0;
  bool started_ = false;         // the ranks were told to
  bool saves_at_start_ = false;  // somebody has asked before that
  bool ending_ = false;
  bool stopping_ = false;
  std::string host_failure_;
  std::exception_ptr refused_;
};

}  // namespace

Outcome run_on_hosts(const JobSpec& spec, const std::vector<HostPart>& hosts, const HostOptions& options,
                     const Listener& listener) {
  auto outcome = JobOnHosts(spec, hosts, options, listener).run();
  // As in run().
  if (spec.saves_when_asked) ::signal(SIGUSR1, SIG_IGN);
  return outcome;
}

}  // namespace tutti::launch
