#include "cli/train_command.h"

#include <fmt/format.h>

#include <ctime>

#include "base/bytes.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/command.h"
#include "config/environment.h"
#include "config/flags.h"
#include "config/hosts.h"
#include "lab/run.h"
#include "observe/summary.h"
#include "report/page.h"
#include "train/resume.h"

namespace tutti::cli {
namespace {

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

int train(const config::TrainConfig& config) {
  auto run = prepare_here(config);
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
    outcome = run_shown(run, progress);
  }
  if (outcome.exit_code != 0) {
    fmt::print(stderr, "tutti: {}\n", outcome.line);
    return outcome.exit_code;
  }
  const auto summary = observe::read_summary(resolved.out);
  const auto page = report::write_page(resolved.out);
  print_summary(summary, resolved.out);
  fmt::print("the page is {}\n", page.string());
  return observe::replicas_agree(summary) ? 0 : 1;
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
  config::lay_over(command, config, merged);
  // Saying how long in one unit replaces what was said in the other, and so does saying how fast.
  if (command.count("--steps") > 0 && command.count("--epochs") == 0) merged.epochs = 0;
  if (command.count("--epochs") > 0 && command.count("--steps") == 0) merged.steps = 0;
  if (command.count("--device-tflops") > 0 && command.count("--pace") == 0) merged.pace_ms = 0;
  return merged;
}

// Where nobody has said how many: as many as the hosts have room for.
int workers_for_hosts(const config::TrainConfig& c) {
  const auto hosts = c.hostfile.empty() ? config::parse_hosts(c.hosts) : config::read_hostfile(c.hostfile);
  return hosts.empty() ? c.workers : config::slots_of(hosts);
}

}  // namespace

train::Prepared prepare_here(const config::TrainConfig& config) {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char now[32];
  std::strftime(now, sizeof now, "%Y%m%d-%H%M%S", &local);
  return train::prepare(config, {config::data_roots(), config::cache_folder()}, config::omp_threads(), now);
}

launch::Listener listener_for(Display& display) {
  return {[&display](Rank r, bool is_error, const std::string& text) {
            const auto line = fmt::format("[{}] {}", to_int(r), text);
            is_error ? display.error_line(line) : display.line(line);
          },
          [&display](Rank, const nlohmann::json& json) { display.emit(observe::from_json(json)); }};
}

launch::Outcome run_shown(train::Prepared& run, Display& display) {
  return lab::run_training(run, this_program(), listener_for(display));
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
    action = [=] { return train(config->resume.empty() ? *config : laid_over_saved(*command, *config)); };
  });
}

}  // namespace tutti::cli
