#include "cli/doctor_hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "lab/bench_links.h"
#include "launch/inspect.h"
#include "net/wire.h"
#include "train/measure.h"

namespace tutti::cli {
namespace {

// Logs of hosts whose clocks differ by more than this tell of things in another order than they happened.
constexpr double kMostClockAhead_s = 1;

// A link that has less than this part of the others' rate holds all of them up.
constexpr double kSlowLink = 0.5;

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
    if (!h.hello) {
      fmt::print(kRow, h.name, "no", "", "", "", "", "");
      continue;
    }
    fmt::print(kRow, h.name, "yes", h.hello->version, h.hello->cores, human_bytes(h.hello->memory_bytes),
               clock_text(h), h.hello->address.empty() ? "this host" : h.hello->address);
  }
}

struct Links {
  std::vector<lab::Link> measured;
  std::string failure;  // why there are not all
};

// Of a job with a rank on each host, which connects each to each by the addresses that a training would use.
Links measure_links(const std::vector<std::string>& hosts, const launch::HostOptions& options) {
  launch::JobSpec job;
  job.program = this_program();
  job.workers = static_cast<int>(hosts.size());
  job.task = lab::kBenchLinksTask;
  std::vector<launch::HostPart> parts;
  for (const std::string& name : hosts) parts.push_back({name, {Rank{static_cast<int>(parts.size())}}});
  const auto name = [&](int rank) { return hosts.at(static_cast<std::size_t>(rank)); };
  Links links;
  const std::size_t pairs = hosts.size() * (hosts.size() - 1) / 2;
  show_progress("connecting the hosts with each other");
  const launch::Listener listener{
      [](Rank, bool, const std::string&) {},
      [&](Rank, const nlohmann::json& report) {
        links.measured.push_back(report.get<lab::Link>());
        const auto& last = links.measured.back();
        show_progress(fmt::format("measured {} to {}, {} of {} pairs", name(last.from), name(last.to),
                                  links.measured.size(), pairs));
      }};
  const auto outcome = launch::run_on_hosts(job, parts, options, listener);
  clear_progress();
  if (outcome.exit_code == 0) return links;
  links.failure = outcome.line + " (";
  for (int r = 0; r < job.workers; ++r)
    links.failure += fmt::format("{}rank {} is {}", r == 0 ? "" : ", ", r, name(r));
  links.failure += ")";
  return links;
}

void print_links(const std::vector<lab::Link>& links, const std::vector<std::string>& names) {
  constexpr auto kRow = "{:<24} {:<24} {:>13} {:>13} {:>13}\n";
  fmt::print("\n");
  fmt::print(kRow, "between", "and", "there", "back", "round trip");
  for (const auto& l : links) {
    fmt::print(kRow, names.at(static_cast<std::size_t>(l.from)), names.at(static_cast<std::size_t>(l.to)),
               rate_text(l.there_bytes_per_second), rate_text(l.back_bytes_per_second),
               fmt::format("{:.3f} ms", l.round_trip_s * 1e3));
  }
}

// What does not keep a job from running, and may keep it from running well.
std::vector<std::string> warnings_of(const std::vector<launch::Inspected>& hosts,
                                     const std::vector<lab::Link>& links,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> warnings;
  for (const auto& h : hosts) {
    if (h.hello && std::abs(h.clock_ahead_s) - h.clock_error_s > kMostClockAhead_s) {
      warnings.push_back(fmt::format("the clock of host {} is {:.1f} s {} of this one's", h.name,
                                     std::abs(h.clock_ahead_s), h.clock_ahead_s > 0 ? "ahead" : "behind"));
    }
  }
  std::vector<double> rates;
  const auto slower = [](const lab::Link& l) {
    return std::min(l.there_bytes_per_second, l.back_bytes_per_second);
  };
  for (const auto& l : links) rates.push_back(slower(l));
  const double usual = rates.empty() ? 0 : *std::ranges::max_element(rates);
  for (const auto& l : links) {
    if (slower(l) >= kSlowLink * usual) continue;
    warnings.push_back(fmt::format(
        "the link between {} and {} has {}, the fastest {}", names.at(static_cast<std::size_t>(l.from)),
        names.at(static_cast<std::size_t>(l.to)), rate_text(slower(l)), rate_text(usual)));
  }
  return warnings;
}

}  // namespace

int doctor_hosts(const std::vector<config::Host>& hosts, const launch::HostOptions& options) {
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
  Links links;
  if (usable.size() > 1) links = measure_links(usable, options);
  if (!links.measured.empty()) print_links(links.measured, usable);
  if (!links.failure.empty()) problems.push_back("the hosts cannot be connected: " + links.failure);
  const auto warnings = warnings_of(inspected, links.measured, usable);
  if (problems.size() + warnings.size() > 0) fmt::print("\n");
  for (const auto& problem : problems) fmt::print("problem: {}\n", problem);
  for (const auto& warning : warnings) fmt::print("note: {}\n", warning);
  return problems.empty() ? 0 : 1;
}

}  // namespace tutti::cli
