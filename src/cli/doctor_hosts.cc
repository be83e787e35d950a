#include "cli/doctor_hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>

#include "base/bytes.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "lab/bench_links.h"
#include "launch/inspect.h"
#include "net/interface.h"

namespace tutti::cli {
namespace {

// Logs of hosts whose clocks differ by more than this tell of things in another order than they happened.
constexpr double kMostClockAhead_s = 1;

// A link that has less than this part of the others' rate holds all of them up.
constexpr double kSlowLink = 0.5;

// So long a host may take to reach another when both have their ranks running, and a link to carry anything.
constexpr auto kTimeToConnect = std::chrono::seconds(10);

// On standard error, where it is a terminal: in place, else a line each.
void show_progress(const std::string& text) {
  if (::isatty(STDERR_FILENO) == 0) return print_line(stderr, text);
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
}
void clear_progress() {
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
}

std::string rate_text(double bytes_per_second) {
  const double mbit = bytes_per_second * 8 / 1e6;
  return mbit < 1000 ? fmt::format("{:.1f} Mbit/s", mbit) : fmt::format("{:.2f} Gbit/s", mbit / 1000);
}

std::string clock_text(const launch::Inspected& host) {
  if (std::abs(host.clock_ahead_s) <= host.clock_error_s)
    return fmt::format("within {:.1f} ms", host.clock_error_s * 1e3);
  return fmt::format("{:+.1f} ms", host.clock_ahead_s * 1e3);
}

void print_hosts(const std::vector<launch::Inspected>& hosts) {
  constexpr auto kRow = "{:<24} {:<9} {:<10} {:>5} {:>10}  {:<18} {}\n";
  fmt::print(kRow, "host", "reachable", "version", "cores", "memory", "clock", "address");
  for (const auto& h : hosts) {
    if (!h.other_version.empty()) {
      fmt::print("{:<24} {:<9} {:<10} cannot be used: this is {}\n", h.name, "yes", h.other_version,
                 kVersion);
      continue;
    }
    if (!h.hello) {
      fmt::print(kRow, h.name, "no", "", "", "", "", "");
      continue;
    }
    fmt::print(kRow, h.name, "yes", h.hello->version, h.hello->cores, human_bytes(h.hello->memory_bytes),
               clock_text(h), h.hello->address.empty() ? "this host" : h.hello->address);
  }
}

// The links between hosts, a row for each pair, whether it can be connected or not.
class Links {
 public:
  // `job` says where ranks listen.
  Links(std::vector<std::string> hosts, launch::JobSpec job, launch::HostOptions options)
      : hosts_(std::move(hosts)), job_(std::move(job)), options_(std::move(options)) {
    job_.program = this_program();
    job_.task = lab::kBenchLinksTask;
    job_.timeout = kTimeToConnect;
    for (std::size_t from = 0; from < hosts_.size(); ++from) {
      for (std::size_t to = from + 1; to < hosts_.size(); ++to) pairs_.push_back({.from = from, .to = to});
    }
  }

  // In one job of all, as a training connects them; of one host, too, which must reach this one. One
  // pair that cannot be connected is the end of that job: then each of those that are left gets a job of its
  // own.
  void measure() {
    if (hosts_.empty()) return;
    show_progress("connecting the hosts with each other");
    std::vector<std::size_t> all(hosts_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    together_ = run(all);
    if (pairs_.size() == 1) pairs_[0].failure = together_;
    for (Pair& p : pairs_) {
      if (together_.empty() || interrupted_ != 0) break;
      if (p.known()) continue;
      show_progress(fmt::format("connecting {} with {} alone", hosts_[p.from], hosts_[p.to]));
      p.failure = run({p.from, p.to});
    }
    clear_progress();
  }

  void print() const {
    if (pairs_.empty()) return;
    constexpr auto kRow = "{:<24} {:<24} {:>13} {:>13} {:>13}\n";
    fmt::print("\n");
    fmt::print(kRow, "between", "and", "there", "back", "round trip");
    for (const Pair& p : pairs_) {
      if (p.link) {
        fmt::print(kRow, hosts_[p.from], hosts_[p.to], rate_text(p.link->there_bytes_per_second),
                   rate_text(p.link->back_bytes_per_second),
                   fmt::format("{:.3f} ms", p.link->round_trip_s * 1e3));
      } else {
        fmt::print("{:<24} {:<24} {}\n", hosts_[p.from], hosts_[p.to],
                   p.known() ? "cannot connect: " + p.failure : "not measured");
      }
    }
  }

  // The exit code where somebody has ended it; else 0.
  int interrupted() const { return interrupted_; }

  // What keeps a job from running, each once.
  std::vector<std::string> problems() const {
    std::vector<std::string> problems;
    for (const Pair& p : pairs_) {
      if (!p.failure.empty() && std::ranges::find(problems, p.failure) == problems.end())
        problems.push_back(p.failure);
    }
    if (problems.empty() && !together_.empty())
      problems.push_back((pairs_.empty() ? "" : "the hosts cannot be connected all together: ") + together_);
    return problems;
  }

  std::vector<std::string> warnings() const {
    const auto slower = [](const lab::Link& l) {
      return std::min(l.there_bytes_per_second, l.back_bytes_per_second);
    };
    double usual = 0;
    for (const Pair& p : pairs_) {
      if (p.link) usual = std::max(usual, slower(*p.link));
    }
    std::vector<std::string> warnings;
    for (const Pair& p : pairs_) {
      if (!p.link || slower(*p.link) >= kSlowLink * usual) continue;
      warnings.push_back(fmt::format("the link between {} and {} has {}, the fastest {}", hosts_[p.from],
                                     hosts_[p.to], rate_text(slower(*p.link)), rate_text(usual)));
    }
    return warnings;
  }

 private:
  // By the numbers of its hosts.
  struct Pair {
    std::size_t from;
    std::size_t to;
    std::optional<lab::Link> link = {};
    std::string failure = {};
    bool known() const { return link || !failure.empty(); }
  };

  // A job with a rank on each of these hosts, which measures every pair of them. Why it could not; empty if
  // it could.
  std::string run(const std::vector<std::size_t>& who) {
    launch::JobSpec job = job_;
    job.workers = static_cast<int>(who.size());
    std::vector<launch::HostPart> parts;
    for (const std::size_t host : who)
      parts.push_back({hosts_[host], {Rank{static_cast<int>(parts.size())}}});
    std::string unreached;
    const launch::Listener listener{[](Rank, bool, const std::string&) {},
                                    [&](Rank, const nlohmann::json& report) {
                                      if (report.contains(lab::kUnreached)) {
                                        unreached = note(report[lab::kUnreached].get<lab::Unreached>(), who);
                                      } else {
                                        note(report.get<lab::Link>(), who);
                                      }
                                    }};
    try {
      const auto outcome = launch::run_on_hosts(job, parts, options_, listener);
      if (outcome.interrupted_by != 0) interrupted_ = outcome.exit_code;
      if (outcome.exit_code == 0 || interrupted_ != 0) return "";
      return unreached.empty() ? outcome.line + who_is(who) : unreached;
    } catch (const std::runtime_error& e) {  // one of them has no such interface, or no port is free here
      return e.what();
    }
  }

  void note(const lab::Link& link, const std::vector<std::size_t>& who) {
    const std::size_t from = who.at(static_cast<std::size_t>(link.from));
    const std::size_t to = who.at(static_cast<std::size_t>(link.to));
    for (Pair& p : pairs_) {
      if (p.from == from && p.to == to) p.link = link;
    }
    show_progress(fmt::format("measured {} to {}, {} of {} pairs", hosts_[from], hosts_[to],
                              std::ranges::count_if(pairs_, &Pair::known), pairs_.size()));
  }

  std::string note(const lab::Unreached& u, const std::vector<std::size_t>& who) {
    const std::size_t from = who.at(static_cast<std::size_t>(u.from));
    if (u.to >= 0) {
      return fmt::format("{} could not reach {} at {}", hosts_[from],
                         hosts_[who.at(static_cast<std::size_t>(u.to))], u.address);
    }
    // A host that comes to no meeting can be connected with none, and to try that takes half a minute each.
    const auto why =
        fmt::format("{} could not reach the launcher, where ranks meet, at {}", hosts_[from], u.address);
    for (Pair& p : pairs_) {
      if ((p.from == from || p.to == from) && !p.known()) p.failure = why;
    }
    return why;
  }

  // " (rank 0 is host1, rank 1 is host2)"
  std::string who_is(const std::vector<std::size_t>& who) const {
    std::string text;
    for (std::size_t r = 0; r < who.size(); ++r)
      text += fmt::format("{}rank {} is {}", r == 0 ? " (" : ", ", r, hosts_[who[r]]);
    return text + ")";
  }

  const std::vector<std::string> hosts_;
  launch::JobSpec job_;
  const launch::HostOptions options_;
  std::vector<Pair> pairs_;
  std::string together_;  // why all cannot be connected in one job
  int interrupted_ = 0;   // the exit code that says by which signal
};

// A rank of a host takes a port there, and where ranks meet one of the launcher's host.
std::vector<std::string> port_problems(const std::vector<config::Host>& hosts,
                                       const std::vector<launch::Inspected>& inspected, PortRange ports) {
  std::vector<std::string> problems;
  if (ports.any()) return problems;
  const int there = ports.last - ports.first + 1;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto& hello = inspected[i].hello;
    const bool is_here = hosts[i].name == "localhost" ||
                         (hello && (hello->address.empty() || net::is_own_address(hello->address)));
    const int needed = hosts[i].slots + (is_here ? 1 : 0);
    if (needed > there) {
      problems.push_back(fmt::format("host {} needs {} ports for {} processes{}, and {} has {}",
                                     hosts[i].name, needed, hosts[i].slots,
                                     is_here ? " and the launcher" : "", text_of(ports), there));
    }
  }
  return problems;
}

std::vector<std::string> clock_warnings(const std::vector<launch::Inspected>& hosts) {
  std::vector<std::string> warnings;
  for (const auto& h : hosts) {
    if (h.hello && std::abs(h.clock_ahead_s) - h.clock_error_s > kMostClockAhead_s) {
      warnings.push_back(fmt::format("the clock of host {} is {:.1f} s {} of this one's", h.name,
                                     std::abs(h.clock_ahead_s), h.clock_ahead_s > 0 ? "ahead" : "behind"));
    }
  }
  return warnings;
}

}  // namespace

int doctor_hosts(const std::vector<config::Host>& hosts, const launch::HostOptions& options,
                 const ListenFlags& listen) {
  launch::JobSpec job;
  listen_as(listen, job);
  std::vector<std::string> names;
  for (const auto& host : hosts) names.push_back(host.name);
  std::size_t answered = 0;
  const auto inspected = launch::inspect(names, this_program(), options, [&](const launch::Inspected& host) {
    show_progress(fmt::format("host {} {}, {} of {}", host.name,
                              host.hello ? "has answered" : "cannot be used", ++answered, hosts.size()));
  });
  clear_progress();
  print_hosts(inspected);
  std::fflush(stdout);

  std::vector<std::string> problems;
  std::vector<std::string> usable;
  for (const auto& h : inspected) {
    if (h.hello) usable.push_back(h.name);
    if (!h.hello) problems.push_back(fmt::format("host {} {}", h.name, h.problem));
  }
  std::ranges::copy(port_problems(hosts, inspected, job.ports), std::back_inserter(problems));
  Links links(usable, job, options);
  links.measure();
  links.print();
  if (links.interrupted() != 0) return links.interrupted();
  std::ranges::copy(links.problems(), std::back_inserter(problems));
  auto warnings = clock_warnings(inspected);
  std::ranges::copy(links.warnings(), std::back_inserter(warnings));
  if (problems.size() + warnings.size() > 0) fmt::print("\n");
  for (const auto& problem : problems) fmt::print("problem: {}\n", problem);
  for (const auto& warning : warnings) fmt::print("note: {}\n", warning);
  return problems.empty() ? 0 : 1;
}

}  // namespace tutti::cli
