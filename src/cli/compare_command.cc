#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/joined.h"
#include "cli/live_table.h"
#include "cli/train_command.h"
#include "config/environment.h"
#include "config/flags.h"
#include "config/hosts.h"
#include "exchange/strategy.h"
#include "report/table.h"
#include "report/verdict.h"

namespace tutti::cli {
namespace {

// With --reproducible those that can be.
std::vector<std::string> usual_strategies(bool reproducible) {
  std::vector<std::string> names;
  for (const auto& strategy : exchange::all_strategies()) {
    if (strategy.compared_by_default && (strategy.takes_shards || !reproducible))
      names.push_back(strategy.name);
  }
  return names;
}

// One, and all that there is room for on hosts that are named.
std::vector<int> usual_workers(const std::vector<config::Host>& hosts) {
  const int all = hosts.empty() ? 2 : config::slots_of(hosts);
  return all > 1 ? std::vector{1, all} : std::vector{1};
}

// Of a comparison's largest run, how many workers share the cores of a host.
int most_on_a_host(const std::vector<int>& workers, const std::vector<config::Host>& hosts) {
  const int most = std::max(1, std::ranges::max(workers));
  if (hosts.empty()) return most;
  return std::min(most, std::ranges::max(hosts, {}, &config::Host::slots).slots);
}

struct CompareFlags {
  config::TrainConfig config;
  std::vector<std::string> models = {config.model};
  std::vector<std::string> strategies;  // none: the usual ones
  std::vector<int> workers;             // none: usual_workers()
  std::vector<std::string> engines;     // none: the settings'
  int repeats = 1;
  bool again = false;
};

int conclude(const lab::CompareSpec& spec, const lab::Experiment& experiment) {
  const auto& cells = experiment.cells();
  const bool of_all = spec.base.global_batch > 0;
  fmt::print("\n{}, batch {} {}\n\n{}",
             spec.models.size() == 1 ? fmt::format("{} on {}", spec.models[0], spec.base.data)
                                     : fmt::format("{} networks on {}", spec.models.size(), spec.base.data),
             of_all ? spec.base.global_batch : spec.base.batch,
             of_all ? "of all workers together" : "a worker", report::render_table(cells));
  if (const auto verdict = report::verdict(cells); !verdict.empty()) fmt::print("\n{}\n", verdict);
  fmt::print("\nruns, checkpoints and metrics are in {}, the table as JSON in {}\nthe page is {}\n",
             experiment.folder(), experiment.path().string(), write_page(experiment.folder()).string());
  return experiment.well() ? 0 : 1;
}

int compare(const CompareFlags& flags) {
  require_own_launcher("compare");
  if (flags.repeats < 1)
    throw ConfigError(fmt::format("--repeats must be at least 1, not {}", flags.repeats));
  const auto strategies =
      flags.strategies.empty() ? usual_strategies(flags.config.reproducible) : flags.strategies;
  const auto hosts = config::named_hosts(flags.config.hosts, flags.config.hostfile);
  lab::CompareSpec spec{flags.config, strategies, flags.workers, flags.models, flags.repeats, flags.engines};
  if (spec.workers.empty()) spec.workers = usual_workers(hosts);
  if (spec.engines.empty()) spec.engines = {spec.base.engine};
  if (spec.base.out.empty()) spec.base.out = "runs/compare";
  // The same for all: one worker alone shall not have the cores of those that it is held against.
  if (spec.base.threads == 0 && !spec.base.reproducible && !config::omp_threads()) {
    const int share = static_cast<int>(allowed_cores().size()) / most_on_a_host(spec.workers, hosts);
    spec.base.threads = std::max(1, share);
  }
  auto runs = lab::plan_runs(spec);
  if (runs.empty()) throw ConfigError("--strategies and --workers leave nothing to run");
  lab::Experiment experiment(spec.base.out, std::move(runs), this_program(),
                             [](const config::TrainConfig& c) { return prepare_here(c); });
  const auto interrupted = run_with_table(experiment, flags.again);
  return interrupted ? *interrupted : conclude(spec, experiment);
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("compare", "Train the same model under several strategies, one table at the end");
  const auto flags = std::make_shared<CompareFlags>();
  config::add_train_flags(*command, flags->config);
  for (const char* replaced : {"--model", "--strategy", "--workers", "--engine", "--resume", "--overwrite"}) {
    command->remove_option(command->get_option(replaced));
  }
  // Of processes that others start.
  for (const char* of_others : {"--cluster", "--task", "--port", "--secret-file", "--join-timeout"}) {
    command->remove_option(command->get_option(of_others));
  }
  const auto list = [&](const char* flag, auto& field, const std::string& help) {
    command->add_option(flag, field, help)->delimiter(',')->capture_default_str();
  };
  list("--model", flags->models, "networks to train, separated by commas; `tutti models` lists them");
  list("--strategies", flags->strategies,
       fmt::format("names, separated by commas; default {} (with --reproducible those that keep step)",
                   fmt::join(usual_strategies(false), ",")));
  list("--workers", flags->workers,
       "numbers, separated by commas; default 1,2, or 1 and as many as --hosts have room for");
  list("--engine", flags->engines,
       "who carries out collectives, separated by commas; `tutti doctor` lists them; auto if none is named");
  command
      ->add_option("--repeats", flags->repeats,
                   "runs of each, in turns; the table has the median and how far the others are from it")
      ->capture_default_str();
  command->add_flag("--again", flags->again,
                    "run also what has finished in this folder with the same settings and program");
  command->callback([flags, &action] { action = [flags] { return compare(*flags); }; });
}

}  // namespace tutti::cli
