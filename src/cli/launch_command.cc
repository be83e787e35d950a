// Any program that joins a session (include/tutti/session.h), as a job of processes on this host.
#include <fmt/format.h>

#include "base/error.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "config/environment.h"
#include "config/settings.h"
#include "launch/launcher.h"

namespace tutti::cli {
namespace {

struct LaunchFlags {
  int processes = 1;
  std::string transport = "shm";
  std::string wire = "auto";
  double timeout_s = 600;
  bool prefix = true;
  std::vector<std::string> command;
};

// Activations of a step are freed and asked for again in the next. By default each goes back to the kernel
// and comes back as zeroed pages, which is a tenth of a step of VGG-16; kept, in large pages, they cost
// nothing.
constexpr auto kKeepFreedMemory =
    "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=2147483647:"
    "glibc.malloc.top_pad=67108864:glibc.malloc.hugetlb=1";

// What suits a program that trains, but for what its user has set.
std::vector<std::string> environment_for(int processes) {
  std::vector<std::string> variables;
  if (!config::has_glibc_tunables()) variables.emplace_back(kKeepFreedMemory);
  // Left to itself each process would take all cores for its own loops.
  if (processes > 1 && !config::omp_threads()) {
    const auto share = std::max<std::size_t>(1, allowed_cores().size() / static_cast<std::size_t>(processes));
    variables.push_back(fmt::format("OMP_NUM_THREADS={}", share));
  }
  return variables;
}

launch::JobSpec spec_of(const LaunchFlags& f) {
  launch::JobSpec job;
  job.command = f.command;
  job.command[0] = config::find_program(f.command[0]);
  job.workers = f.processes;
  job.transport = f.transport;
  job.wire = f.wire;
  job.timeout = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(f.timeout_s));
  job.busy_threads = 2;  // backward computes while the exchange waits
  job.environment = environment_for(f.processes);
  return job;
}

int launch_command(const LaunchFlags& f) {
  const bool prefix = f.prefix && f.processes > 1;
  const launch::Listener listener{[&](Rank rank, bool is_error, const std::string& line) {
                                    print_line(is_error ? stderr : stdout,
                                               prefix ? fmt::format("[{}] {}", to_int(rank), line) : line);
                                  },
                                  [](Rank, const nlohmann::json&) {}};
  const auto outcome = launch::run(spec_of(f), listener);
  if (outcome.exit_code != 0) fmt::print(stderr, "tutti: {}\n", outcome.line);
  return outcome.exit_code;
}

}  // namespace

void add_launch(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "launch", "Start N processes of any program that joins a session (tutti::Session::join) on this host");
  const auto flags = std::make_shared<LaunchFlags>();
  command->add_option("-n,--processes", flags->processes, "how many")->required()->check(CLI::Range(1, 1024));
  command->add_option("--transport", flags->transport, "how they reach each other")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->capture_default_str();
  command->add_option("--wire", flags->wire, config::kWireHelp)
      ->check(CLI::IsMember({"auto", "auth", "encrypt", "plain"}))
      ->capture_default_str();
  command
      ->add_option("--timeout", flags->timeout_s,
                   "seconds that a wait for others may last while nobody in the job gets anything done")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command->add_flag("!--no-prefix", flags->prefix, "do not put \"[rank] \" before each line of output");
  command->add_option("command", flags->command, "after --: the program and its arguments")->required();
  command->callback([flags, &action] { action = [flags] { return launch_command(*flags); }; });
}

}  // namespace tutti::cli
