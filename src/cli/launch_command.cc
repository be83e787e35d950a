// Any program that joins a session (include/tutti/session.h), as a job of processes on this host or on
// several.
#include "cli/launch_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/host_flags.h"
#include "cli/joined.h"
#include "cli/progress.h"
#include "config/environment.h"
#include "config/flags.h"
#include "config/settings.h"
#include "lab/run.h"
#include "launch/hosts.h"
#include "launch/launcher.h"

namespace tutti::cli {
namespace {

struct LaunchFlags {
  int processes = 0;  // 0: as many as the hosts have room for
  HostFlags hosts;
  std::string transport = "shm";
  bool transport_said = false;
  std::string wire = "auto";
  ListenFlags listen;
  double timeout_s = 600;
  bool prefix = true;
  std::vector<std::string> command;
};

// What Session::join() does itself (keep_freed_memory), and large pages, which only the environment can ask
// for.
constexpr auto kKeepFreedMemory =
    "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=2147483647:"
    "glibc.malloc.top_pad=67108864:glibc.malloc.hugetlb=1";

launch::JobSpec spec_of(const LaunchFlags& f) {
  launch::JobSpec job;
  job.command = f.command;
  job.command[0] = config::find_program(f.command[0]);
  job.transport = f.transport;
  job.wire = f.wire;
  listen_as(f.listen, job);
  job.timeout = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(f.timeout_s));
  job.busy_threads = 2;  // backward computes while the exchange waits
  return job;
}

// On the hosts, each of which adds what suits its own cores. What the user has set here counts there, too.
launch::Outcome run_on_hosts(launch::JobSpec job, const LaunchFlags& f,
                             const std::vector<config::Host>& hosts, const launch::Listener& listener) {
  if (f.transport_said && f.transport != "tcp")
    throw ConfigError("--transport shm is for processes of one host, and --hosts are named");
  job.program = this_program();
  if (const auto threads = config::omp_threads())
    job.environment.push_back(fmt::format("OMP_NUM_THREADS={}", *threads));
  return launch::run_on_hosts(job, lab::parts_of(hosts, job.workers, 0), options_of(f.hosts), listener);
}

int launch_command(const LaunchFlags& f) {
  require_own_launcher("launch");
  const auto hosts = hosts_of(f.hosts);
  auto job = spec_of(f);
  job.workers = f.processes > 0 ? f.processes : config::slots_of(hosts);
  if (job.workers == 0) throw ConfigError("launch needs -n, or hosts that say how many processes they take");
  if (!hosts.empty() && job.workers > config::slots_of(hosts)) {
    throw ConfigError(fmt::format("-n {}: there are {} places on the hosts that are named", job.workers,
                                  config::slots_of(hosts)));
  }
  const bool prefix = f.prefix && job.workers > 1;
  const launch::Listener listener{[&](Rank rank, bool is_error, const std::string& line) {
                                    print_line(is_error ? stderr : stdout,
                                               prefix ? fmt::format("[{}] {}", to_int(rank), line) : line);
                                  },
                                  [](Rank, const nlohmann::json&) {}};
  if (hosts.empty()) add_environment(job, job.workers);
  const auto outcome = hosts.empty() ? launch::run(job, listener) : run_on_hosts(job, f, hosts, listener);
  if (outcome.exit_code != 0) fmt::print(stderr, "tutti: {}\n", outcome.line);
  return outcome.exit_code;
}

}  // namespace

void add_environment(launch::JobSpec& spec, int processes) {
  const auto is_set = [&](std::string_view name) {
    return std::ranges::any_of(spec.environment, [&](const std::string& v) { return v.starts_with(name); });
  };
  if (!config::has_malloc_settings()) spec.environment.emplace_back(kKeepFreedMemory);
  // Left to itself each process would take all cores for its own loops.
  if (processes > 1 && !config::omp_threads() && !is_set("OMP_NUM_THREADS=")) {
    const auto share = std::max<std::size_t>(1, allowed_cores().size() / static_cast<std::size_t>(processes));
    spec.environment.push_back(fmt::format("OMP_NUM_THREADS={}", share));
  }
}

void add_launch(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("launch",
                                     "Start N processes of any program that joins a session "
                                     "(tutti::Session::join), here or on several hosts");
  const auto flags = std::make_shared<LaunchFlags>();
  command
      ->add_option("-n,--processes", flags->processes, "how many; with hosts, as many as they have room for")
      ->check(CLI::Range(1, 1024));
  add_host_flags(*command, flags->hosts);
  command->add_option("--transport", flags->transport, "how they reach each other")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->capture_default_str();
  command->add_option("--wire", flags->wire, config::kWireHelp)
      ->check(CLI::IsMember({"auto", "auth", "encrypt", "plain"}))
      ->capture_default_str();
  add_listen_flags(*command, flags->listen);
  command
      ->add_option("--timeout", flags->timeout_s,
                   "seconds that a wait for others may last while nobody in the job gets anything done")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command->add_flag("!--no-prefix", flags->prefix, "do not put \"[rank] \" before each line of output");
  command->add_option("command", flags->command, "after --: the program and its arguments")->required();
  command->callback([flags, command, &action] {
    flags->transport_said = command->count("--transport") > 0;
    action = [flags] { return launch_command(*flags); };
  });
}

}  // namespace tutti::cli
