#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/comparison.h"
#include "config/environment.h"
#include "config/flags.h"
#include "exchange/strategy.h"
#include "report/page.h"
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

struct CompareFlags {
  config::TrainConfig config;
  std::vector<std::string> models = {config.model};
  std::vector<std::string> strategies;  // none: the usual ones
  std::vector<int> workers = {1, 2};
  std::vector<std::string> engines;  // none: the settings'
  int repeats = 1;
  bool again = false;
};

int conclude(const lab::CompareSpec& spec, const Comparison& comparison) {
  const auto& cells = comparison.cells();
  const bool of_all = spec.base.global_batch > 0;
  fmt::print("\n{}, batch {} {}\n\n{}",
             spec.models.size() == 1 ? fmt::format("{} on {}", spec.models[0], spec.base.data)
                                     : fmt::format("{} networks on {}", spec.models.size(), spec.base.data),
             of_all ? spec.base.global_batch : spec.base.batch,
             of_all ? "of all workers together" : "a worker", report::render_table(cells));
  if (const auto verdict = report::verdict(cells); !verdict.empty()) fmt::print("\n{}\n", verdict);
  fmt::print("\nruns, checkpoints and metrics are in {}, the table as JSON in {}\nthe page is {}\n",
             comparison.folder(), comparison.path().string(),
             report::write_page(comparison.folder()).string());
  return comparison.well() ? 0 : 1;
}

int compare(const CompareFlags& flags) {
  if (flags.repeats < 1)
    throw ConfigError(fmt::format("--repeats must be at least 1, not {}", flags.repeats));
  const auto strategies =
      flags.strategies.empty() ? usual_strategies(flags.config.reproducible) : flags.strategies;
  lab::CompareSpec spec{flags.config, strategies, flags.workers, flags.models, flags.repeats, flags.engines};
  if (spec.engines.empty()) spec.engines = {spec.base.engine};
  if (spec.base.out.empty()) spec.base.out = "runs/compare";
  // The same for all: one worker alone shall not have the cores of those that it is held against.
  if (spec.base.threads == 0 && !spec.base.reproducible && !config::omp_threads() && !spec.workers.empty()) {
    const int most = std::max(1, std::ranges::max(spec.workers));
    spec.base.threads = std::max(1, static_cast<int>(allowed_cores().size()) / most);
  }
  auto runs = lab::plan_runs(spec);
  if (runs.empty()) throw ConfigError("--strategies and --workers leave nothing to run");
  Comparison comparison(spec.base.out, std::move(runs), flags.again);
  const auto interrupted = comparison.run();
  return interrupted ? *interrupted : conclude(spec, comparison);
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
  const auto list = [&](const char* flag, auto& field, const std::string& help) {
    command->add_option(flag, field, help)->delimiter(',')->capture_default_str();
  };
  list("--model", flags->models, "networks to train, separated by commas; `tutti models` lists them");
  list("--strategies", flags->strategies,
       fmt::format("names, separated by commas; default {} (with --reproducible those that keep step)",
                   fmt::join(usual_strategies(false), ",")));
  list("--workers", flags->workers, "numbers, separated by commas");
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
