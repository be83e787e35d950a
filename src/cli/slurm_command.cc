// A training as a batch job of SLURM's: its job file, printed or handed to sbatch.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "cli/command.h"
#include "cli/train_command.h"
#include "config/environment.h"
#include "exchange/strategy.h"
#include "launch/slurm.h"
#include "train/resume.h"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

struct SlurmFlags {
  launch::SlurmJob job;
  int signal_before_s = 120;
  bool dry_run = false;
  bool submit = false;
  std::vector<std::string> train;
};

// What would be found wrong only when the job has waited for its turn.
void require_fit(const config::TrainConfig& config, int tasks) {
  if (config.out.empty())
    throw ConfigError("--out DIR must be among train's arguments: the job goes on there");
  if (!config.resume.empty() && config.resume != train::kAuto)
    throw ConfigError("--resume: the job goes on in its own run folder; leave it out, or say auto");
  if (config.overwrite)
    throw ConfigError("--overwrite would begin anew each time when the job is queued again");
  if (!config.hosts.empty() || !config.hostfile.empty() || !config.emulate.empty() || config.restarts > 0)
    throw ConfigError(
        "--hosts, --hostfile, --emulate and --restarts start processes, which srun does here; leave them "
        "out");
  const auto& strategy = exchange::find_strategy(config.strategy);
  const int servers = strategy.servers && !config.colocate ? std::max(1, config.servers) : 0;
  const int workers = tasks - servers;
  if (workers < 1)
    throw ConfigError(fmt::format("--strategy {}: {} tasks, of which {} are servers, leave no worker",
                                  config.strategy, tasks, servers));
  if (config.workers > 0 && config.workers != workers)
    throw ConfigError(
        fmt::format("--workers {}: {} tasks, of which {} are servers, are {} workers; leave it out",
                    config.workers, tasks, servers, workers));
}

int slurm(SlurmFlags f) {
  if (f.dry_run == f.submit) throw ConfigError("say --dry-run, to see the job file, or --submit");
  if (f.train.front() != "train")
    throw ConfigError(fmt::format("after -- comes `train` and its arguments, not '{}'", f.train.front()));
  auto& job = f.job;
  const std::vector<std::string> arguments(f.train.begin() + 1, f.train.end());
  const auto config = parse_train(arguments);
  require_fit(config, job.nodes * job.tasks_per_node);
  const fs::path out = fs::absolute(config.out).lexically_normal();
  const auto run = out.filename().empty() ? out.parent_path() : out;
  if (job.name.empty()) job.name = run.filename();
  job.log = job.log.empty() ? run.string() + ".slurm-%j.log" : fs::absolute(job.log).string();
  job.signal_before = std::chrono::seconds(f.signal_before_s);
  job.folder = fs::current_path();
  job.command = {this_program(), "train"};
  job.command.insert(job.command.end(), arguments.begin(), arguments.end());
  if (config.resume.empty()) job.command.insert(job.command.end(), {"--resume", std::string(train::kAuto)});
  const auto file = launch::job_file(job);
  if (f.dry_run) {
    fmt::print("{}", file);
    return 0;
  }
  const auto sbatch = config::find_program("sbatch");
  fs::create_directories(fs::path(job.log).parent_path());  // SLURM would fail the job without a word
  const auto number = launch::submit(sbatch, file);
  std::string log = job.log;
  if (const auto at = log.find("%j"); at != std::string::npos) log.replace(at, 2, number);
  fmt::print("job {} is queued\nits log is {}\n", number, log);
  return 0;
}

}  // namespace

void add_slurm(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("slurm",
                         "A training as a batch job of SLURM's that saves before its time is up and goes on: "
                         "tutti slurm --nodes 2 --ntasks-per-node 4 --submit -- train --out DIR ...");
  const auto f = std::make_shared<SlurmFlags>();
  const auto positive = CLI::Range(1, 1'000'000);
  command->add_option("--nodes", f->job.nodes, "how many")->check(positive)->capture_default_str();
  command
      ->add_option("--ntasks-per-node", f->job.tasks_per_node,
                   "workers, and servers where the strategy has some, on each")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--time", f->job.time,
                      "limit of one round, as sbatch takes it: 90 (minutes), 2:00:00, 1-12:00:00");
  command->add_option("--partition", f->job.partition, "where it runs");
  command->add_option("--account", f->job.account, "who pays");
  command->add_option("--job-name", f->job.name, "its name; the run folder's without it");
  command
      ->add_option("--signal-before", f->signal_before_s,
                   "seconds before the limit at which the run is told to save; SLURM may be a minute early")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--log", f->job.log,
                      "where output goes, %j is the job's number; DIR.slurm-%j.log without it");
  command
      ->add_option("--sbatch", f->job.options,
                   "a further option of sbatch, as --sbatch=--mem=32G; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--dry-run", f->dry_run, "print the job file");
  command->add_flag("--submit", f->submit, "hand it to sbatch");
  command->add_option("train", f->train, "after --: train and its arguments")->required();
  command->callback([f, &action] { action = [f] { return slurm(*f); }; });
}

}  // namespace tutti::cli
