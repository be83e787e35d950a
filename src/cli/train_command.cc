#include "cli/train_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/bytes.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "cli/joined.h"
#include "config/environment.h"
#include "config/flags.h"
#include "config/hosts.h"
#include "engines/engines.h"
#include "exchange/strategy.h"
#include "lab/run.h"
#include "launch/join.h"
#include "observe/summary.h"
#include "train/resume.h"
#include "train/strategy_settings.h"

namespace tutti::cli {
namespace {

// Told to other processes where rank 0 finds that a run is complete.
constexpr const char* kComplete = "complete";

void print_traffic(const observe::Emulated& emulated) {
  for (const auto& host : emulated.per_host) {
    fmt::print("\n  emulated host {:>2}: sent {:>10} in {:>8} packets, received {:>10} in {:>8}", host.host,
               human_bytes(host.bytes_sent), host.packets_sent, human_bytes(host.bytes_received),
               host.packets_received);
  }
}

void print_summary(const observe::Summary& s, const std::string& folder) {
  fmt::print(
      "\n{} workers: {:.0f} samples/s, step {:.2f} ms (p90 {:.2f}), compute {:.2f} ms, exchange {:.2f} ms of "
      "which "
      "{:.2f} ms exposed\n",
      s.workers, s.samples_per_second, s.step_ms.median, s.step_ms.p90, s.compute_ms, s.exchange_ms,
      s.exposed_exchange_ms);
  if (s.words_per_second) fmt::print("{:.0f} words/s; ", *s.words_per_second);
  fmt::print("each worker sent {}", human_bytes(s.bytes_sent_per_worker));
  if (s.train_loss) fmt::print("; train loss {:.4f}", *s.train_loss);
  for (const auto& [name, value] : s.test) {
    if (value) fmt::print("; test {} {:.4f}", name, *value);
  }
  if (s.until) {
    const auto& [target, reached, seconds] = *s.until;
    fmt::print("\n{} {} {}", target.figure, target.value,
               reached ? fmt::format("was reached after {:.1f} s", seconds.value_or(0)) : "was not reached");
  }
  const auto conditions = observe::conditions_of(s);
  if (!conditions.empty()) fmt::print("\n{}", conditions);
  if (s.pace_ms > 0) fmt::print(": no training, only its exchange");
  if (s.emulated) print_traffic(*s.emulated);
  if (s.by_servers) {
    fmt::print(
        "\nstaleness of gradients {:.2f} on average, {} at most; lead {} at most; {} pieces applied, {} "
        "dropped",
        s.by_servers->staleness.mean, s.by_servers->staleness.max, s.by_servers->max_lead,
        s.by_servers->pieces_applied, s.by_servers->pieces_dropped);
  }
  fmt::print("\nparameters {} on {}\n", s.parameters_sha256.substr(0, 16),
             observe::replicas_agree(s) ? "every replica" : "rank 0 ONLY: replicas differ");
  if (s.rejected_connections.value_or(0) > 0) {
    fmt::print("{} connections were rejected: they did not know the secret of the job\n",
               *s.rejected_connections);
  }
  fmt::print("everything is in {}\n", folder);
}

int train(const config::TrainConfig& config, std::span<const int> started_on = {},
          const lab::RunJob& run_job = launch::run) {
  auto run = prepare_here(config, started_on);
  const auto& resolved = run.setup.config;
  if (run.complete) {
    fmt::print("the run in {} is complete: nothing is left to do\n", resolved.out);
    return 0;
  }
  fmt::print("{}", config::resolved_table(resolved));
  std::fflush(stdout);
  launch::Outcome outcome;
  {
    Progress progress;
    outcome = lab::run_training(run, this_program(), listener_for(progress), lab::pause_unless_interrupted,
                                run_job);
  }
  if (outcome.exit_code != 0) {
    fmt::print(stderr, "tutti: {}\n", outcome.line);
    return outcome.exit_code;
  }
  const auto summary = observe::read_summary(resolved.out);
  const auto page = write_page(resolved.out);
  print_summary(summary, resolved.out);
  fmt::print("the page is {}\n", page.string());
  return observe::replicas_agree(summary) ? 0 : 1;
}

// Where roles are said, they are the strategy's.
void fit_roles(config::TrainConfig& config, int servers, const config::Placement& placement) {
  if (config.colocate && servers > 0)
    throw ConfigError(fmt::format("--colocate puts servers into the workers, and {} has {} ps; leave one out",
                                  placement.launcher, servers));
  const bool serves = exchange::find_strategy(config.strategy).servers.has_value();
  const bool needs = serves && !config.colocate;
  if (needs != (servers > 0) || (config.servers != 0 && config.servers != servers))
    throw ConfigError(
        fmt::format("{} has {} ps, and --strategy {} {}", placement.launcher, servers, config.strategy,
                    !serves               ? "has no servers"
                    : config.servers != 0 ? fmt::format("is to have --servers {}", config.servers)
                                          : "needs one, or --colocate"));
  config.servers = servers;
}

// What others have started are workers, and servers where the strategy has some of their own.
config::TrainConfig fitted(config::TrainConfig config, bool workers_said, const config::Placement& placement,
                           rendezvous::Meeting& meeting) {
  const auto started = placement.launcher;
  if (!config.emulate.empty() || !config.hosts.empty() || !config.hostfile.empty())
    throw ConfigError(fmt::format(
        "--emulate, --hosts and --hostfile start processes, which {} has done; leave one out", started));
  if (config.restarts > 0)
    throw ConfigError(fmt::format(
        "--restarts starts processes, which {} has done; repeat the command with --resume auto", started));
  if (placement.servers) fit_roles(config, *placement.servers, placement);
  if (!workers_said) {
    const auto& strategy = exchange::find_strategy(config.strategy);
    const int servers = strategy.servers && !config.colocate ? std::max(1, config.servers) : 0;
    config.workers = meeting.world() - servers;
    if (config.workers < 1)
      throw ConfigError(fmt::format("--strategy {}: {} processes, of which {} are servers, leave no worker",
                                    config.strategy, meeting.world(), servers));
  }
  return config;
}

// Each host has a status board of its own. Who ends where or saves what is told on one board so far.
void require_one_board(const config::TrainConfig& config) {
  const auto& strategy = exchange::find_strategy(config.strategy);
  const bool in_step = !strategy.asynchronous && !strategy.replicas_differ && !strategy.shares_memory;
  if (!in_step || config.backup_workers > 0)
    throw ConfigError(fmt::format(
        "--strategy {} needs all processes on one host, or our own launcher (--hosts); use one whose "
        "workers keep step, as allreduce and ps-sync",
        config.strategy));
  if (!config.until.empty())
    throw ConfigError("--until needs all processes on one host, or our own launcher (--hosts)");
}

// Every process of the meeting calls it; rank 0 prepares, from what `configure` gives it, and tells.
int train_in_meeting(rendezvous::Meeting& meeting, const config::Placement& placement,
                     launch::ProcessSignals& signals, bool workers_said,
                     const std::function<config::TrainConfig()>& configure) {
  const auto hosts = launch::hosts_of(meeting);
  const bool one_host = std::ranges::max(hosts) == 0;
  if (meeting.rank() != Rank{0}) {
    try {
      return run_in_meeting(meeting, nullptr, {}, &signals).exit_code;
    } catch (const launch::CalledOff& e) {
      if (std::string_view(e.what()) == kComplete) return 0;
      throw;
    }
  }
  bool begun = false;
  bool ended = false;
  const auto run_job = [&](const launch::JobSpec& spec, const launch::Listener& listener) {
    begun = true;
    auto outcome = run_in_meeting(meeting, &spec, listener, &signals);
    ended = true;
    return outcome;
  };
  try {
    auto config = fitted(configure(), workers_said, placement, meeting);
    if (!one_host) require_one_board(config);
    if (config.transport == "auto" && !one_host) config.transport = "tcp";
    if (config.wire == "auto" && config.transport != "mpi" && !one_host) config.wire = "auth";
    const auto warning = engines::find_engine(config.engine).between_hosts;
    if (!one_host && !warning.empty()) fmt::print(stderr, "tutti: {}\n", warning);
    const int code = train(config, hosts, run_job);
    if (!begun) launch::call_off(meeting, kComplete, 0);
    return code;
  } catch (const std::exception& e) {
    if (ended) return explain(e);  // the others have gone: there is nobody to tell
    if (begun) throw;
    return call_off(meeting, e);
  }
}

// Whether a run that was saved says what this one is; --resume auto may find none.
bool goes_on(const config::TrainConfig& config) {
  if (config.resume != train::kAuto) return !config.resume.empty();
  return !config.out.empty() && checkpoint::latest(config.out);
}

// What is not said now is as it was: the config that was saved is the default, the given flags are laid over
// it. Nothing was saved where --resume auto begins.
config::TrainConfig laid_over_saved(const CLI::App& command, const config::TrainConfig& config) {
  const bool automatic = config.resume == train::kAuto;
  if (automatic && config.out.empty()) return config;  // train() says what is missing
  const auto& from = automatic ? config.out : config.resume;
  // Reading a large checkpoint takes its time; that the folder is taken is said before.
  const auto folder = config.out.empty() ? train::run_folder_of(from).string() : config.out;
  if (!folder.empty()) (void)train::FolderLock::take_if_there(folder);
  if (automatic && !checkpoint::latest(from)) return config;
  config::TrainConfig merged = train::config_of_run(from);
  merged.out.clear();
  merged.overwrite = false;  // that was for the folder as it was then
  // With --reproducible a run may go on under another strategy, which does not read all that the last one
  // did.
  if (command.count("--strategy") > 0) {
    const auto& strategy = exchange::find_strategy(config.strategy);
    train::reset_others_settings(strategy, merged);
    if (strategy.one_worker_only) merged.workers = 1;
  }
  config::lay_over(command, config, merged);
  // Saying how long in one unit replaces what was said in the other, and so does saying how fast.
  if (command.count("--steps") > 0 && command.count("--epochs") == 0) merged.epochs = 0;
  if (command.count("--epochs") > 0 && command.count("--steps") == 0) merged.steps = 0;
  if (command.count("--device-tflops") > 0 && command.count("--pace") == 0) merged.pace_ms = 0;
  return merged;
}

// Where nobody has said how many: as many as the hosts have room for.
int workers_for_hosts(const config::TrainConfig& c) {
  const auto hosts = config::named_hosts(c.hosts, c.hostfile);
  return hosts.empty() ? c.workers : config::slots_of(hosts);
}

}  // namespace

config::TrainConfig parse_train(const std::vector<std::string>& arguments) {
  CLI::App command;
  command.set_help_flag();
  config::TrainConfig config;
  config.workers = 0;
  std::string file;
  config::add_train_flags(command, config);
  command.add_option("--config", file);
  try {
    // CLI11 takes them from the last to the first.
    command.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    throw ConfigError(fmt::format("train: {}", e.what()));
  }
  if (!file.empty()) config::apply_config_file(command, file);
  return config;
}

train::Prepared prepare_here(const config::TrainConfig& config, std::span<const int> started_on) {
  require_transport(config.transport);
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char now[32];
  std::strftime(now, sizeof now, "%Y%m%d-%H%M%S", &local);
  return train::prepare(config, {config::data_roots(), config::cache_folder()}, config::omp_threads(), now,
                        started_on);
}

launch::Listener listener_for(Display& display) {
  return {[&display](Rank r, bool is_error, const std::string& text) {
            const auto line = fmt::format("[{}] {}", to_int(r), text);
            is_error ? display.error_line(line) : display.line(line);
          },
          [&display](Rank, const nlohmann::json& json) { display.emit(observe::from_json(json)); }};
}

void add_train(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("train", "Train a model, by one process or by many");
  const auto config = std::make_shared<config::TrainConfig>();
  const auto file = std::make_shared<std::string>();
  config::add_train_flags(*command, *config);
  command->add_option("--config", *file, "a file of `flag = value` lines; flags and environment win over it");
  command->callback([=, &action] {
    if (!file->empty()) config::apply_config_file(*command, *file);
    if (command->count("--workers") == 0) config->workers = workers_for_hosts(*config);
    action = [=] {
      const auto resolved = [&] {
        return config->resume.empty() ? *config : laid_over_saved(*command, *config);
      };
      const auto settings = config::join_settings_of(*config);
      const auto placement = started_by_others(settings);
      if (!placement) return train(resolved());
      const bool workers_said = command->count("--workers") > 0 || goes_on(*config);
      launch::ProcessSignals signals;  // from the first moment on
      // What a run goes on with stands in its folder, which rank 0 alone reads.
      const bool maybe_over_mpi = config->transport == "mpi" || !config->resume.empty();
      const auto threads = maybe_over_mpi ? mpi::Threads::at_once : mpi::Threads::one_at_a_time;
      return in_meeting(*placement, settings, threads, [&](rendezvous::Meeting& meeting) {
        return train_in_meeting(meeting, *placement, signals, workers_said, resolved);
      });
    };
  });
}

}  // namespace tutti::cli
