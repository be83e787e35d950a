#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/train_command.h"
#include "config/flags.h"
#include "exchange/strategy.h"
#include "lab/compare.h"
#include "lab/run.h"

namespace tutti::cli {
namespace {

struct Flags {
  config::TrainConfig config;
  std::vector<std::string> strategies = {"local",   "reduce-broadcast", "ring",  "allreduce",
                                         "ps-sync", "ps-async",         "ps-ssp"};
  std::vector<int> workers = {1, 2};
};

config::TrainConfig config_of(const lab::Cell& cell, const config::TrainConfig& base) {
  config::TrainConfig c = base;
  c.strategy = cell.strategy;
  c.workers = cell.workers;
  c.out = cell.folder;
  if (!exchange::find_strategy(c.strategy).servers) {
    c.servers = 0;
    c.colocate = c.local_aggregation = false;
    c.server_role = "auto";
    c.backup_workers = 0;
  }
  return c;
}

int compare(const Flags& flags) {
  lab::CompareSpec spec{flags.config, flags.strategies, flags.workers};
  if (spec.base.out.empty()) spec.base.out = "runs/compare";
  auto cells = lab::plan_cells(spec);
  if (cells.empty()) throw ConfigError("--strategies and --workers leave nothing to run");
  // All of them first: an hour of runs shall not end in a typing error.
  for (const lab::Cell& cell : cells) prepare_here(config_of(cell, spec.base));

  bool all_well = true;
  for (lab::Cell& cell : cells) {
    fmt::print("\n{} with {} worker{}\n", cell.strategy, cell.workers, cell.workers == 1 ? "" : "s");
    std::fflush(stdout);
    Progress progress;
    const auto outcome = run_shown(prepare_here(config_of(cell, spec.base)), progress);
    if (outcome.interrupted_by != 0) {
      fmt::print(stderr, "tutti: {}\n", outcome.line);
      return outcome.exit_code;
    }
    if (outcome.exit_code == 0) {
      cell.summary = lab::read_summary(cell.folder);
      all_well = all_well && lab::replicas_agree(cell.summary);
    } else {
      cell.failure = outcome.line;
      all_well = false;
    }
  }
  const auto table = lab::render_table(cells);
  const auto verdict = lab::verdict(cells);
  fmt::print("\n{} on {}, batch {} a worker\n\n{}\n{}{}", spec.base.model, spec.base.data, spec.base.batch,
             table, verdict, verdict.empty() ? "" : "\n");
  const auto path = std::filesystem::path(spec.base.out) / "compare.json";
  write_file_atomically(path, lab::to_json(cells).dump(2) + "\n");
  fmt::print("\nruns, checkpoints and metrics are in {}, the table as JSON in {}\n", spec.base.out,
             path.string());
  return all_well ? 0 : 1;
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("compare", "Train the same model under several strategies, one table at the end");
  const auto flags = std::make_shared<Flags>();
  config::add_train_flags(*command, flags->config);
  for (const char* replaced : {"--strategy", "--workers", "--resume"}) {
    command->remove_option(command->get_option(replaced));
  }
  command->add_option("--strategies", flags->strategies, "names, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--workers", flags->workers, "numbers, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command->callback([flags, &action] { action = [flags] { return compare(*flags); }; });
}

}  // namespace tutti::cli
