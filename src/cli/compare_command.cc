#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/live_table.h"
#include "cli/train_command.h"
#include "config/environment.h"
#include "config/flags.h"
#include "lab/compare.h"
#include "report/page.h"
#include "report/summary.h"
#include "report/table.h"
#include "report/verdict.h"

namespace tutti::cli {
namespace {

struct Flags {
  config::TrainConfig config;
  std::vector<std::string> models = {config.model};
  std::vector<std::string> strategies = {"local",   "reduce-broadcast", "ring",  "allreduce",
                                         "ps-sync", "ps-async",         "ps-ssp"};
  std::vector<int> workers = {1, 2};
  int repeats = 1;
  bool again = false;
};

class Comparison {
 public:
  Comparison(lab::CompareSpec spec, bool again)
      : spec_(std::move(spec)), again_(again), cells_(lab::plan_cells(spec_)) {
    if (cells_.empty()) throw ConfigError("--strategies and --workers leave nothing to run");
    // All of them first: an hour of runs shall not end in a typing error.
    for (const auto& cell : cells_) prepare(cell, 0);
  }

  int run() {
    {
      LiveTable table(cells_);
      // In turns, so that what the machine does meanwhile falls on all of them.
      for (std::size_t repeat = 0; repeat < static_cast<std::size_t>(spec_.repeats); ++repeat) {
        for (std::size_t i = 0; i < cells_.size(); ++i) {
          if (!cells_[i].failure.empty()) continue;
          const auto outcome = run_one(i, repeat, table);
          if (outcome.interrupted_by == 0) continue;
          table.error_line(fmt::format(
              "tutti: {}; what has finished is kept, the same command goes on from there", outcome.line));
          return outcome.exit_code;
        }
      }
    }
    return conclude();
  }

 private:
  train::Prepared prepare(const report::Cell& cell, std::size_t repeat) const {
    return prepare_here(lab::config_of(cell, cell.repeats[repeat], spec_.base));
  }

  launch::Outcome run_one(std::size_t i, std::size_t repeat, LiveTable& table) {
    auto& cell = cells_[i];
    auto& summary = cell.repeats[repeat].summary;
    const auto prepared = prepare(cell, repeat);
    table.begin(i, repeat);
    if (!again_) summary = lab::finished_run(prepared.setup.config, this_program());
    const bool reused = !summary.is_null();
    auto outcome = reused ? launch::Outcome{} : run_shown(prepared, table);
    if (outcome.interrupted_by != 0) return outcome;
    if (reused) table.line(name_of(cell) + " had finished with the same settings: taken as it is");
    std::string what = "done";
    if (outcome.exit_code != 0) {
      cell.failure = what = outcome.line;
      cell.summary = nullptr;
    } else {
      if (!reused) summary = report::read_summary(cell.repeats[repeat].folder);
      report::settle(cell);
    }
    save();
    table.end(i, what);
    return outcome;
  }

  // After each run, so that what an interrupted comparison leaves can be looked at.
  void save() {
    lab::verify(cells_);
    write_file_atomically(path(), nlohmann::json(cells_).dump(2) + "\n");
  }

  int conclude() const {
    fmt::print("\n{}, batch {} a worker\n\n{}",
               spec_.models.size() == 1
                   ? fmt::format("{} on {}", spec_.models[0], spec_.base.data)
                   : fmt::format("{} networks on {}", spec_.models.size(), spec_.base.data),
               spec_.base.batch, report::render_table(cells_));
    if (const auto verdict = report::verdict(cells_); !verdict.empty()) fmt::print("\n{}\n", verdict);
    fmt::print("\nruns, checkpoints and metrics are in {}, the table as JSON in {}\nthe page is {}\n",
               spec_.base.out, path().string(), report::write_page(spec_.base.out).string());
    const auto well = [](const report::Cell& c) { return c.failure.empty() && c.doubt.empty(); };
    return std::ranges::all_of(cells_, well) ? 0 : 1;
  }

  std::filesystem::path path() const { return std::filesystem::path(spec_.base.out) / "compare.json"; }

  const lab::CompareSpec spec_;
  const bool again_;
  std::vector<report::Cell> cells_;
};

int compare(const Flags& flags) {
  if (flags.repeats < 1)
    throw ConfigError(fmt::format("--repeats must be at least 1, not {}", flags.repeats));
  lab::CompareSpec spec{flags.config, flags.strategies, flags.workers, flags.models, flags.repeats};
  if (spec.base.out.empty()) spec.base.out = "runs/compare";
  // The same for all: one worker alone shall not have the cores of those that it is held against.
  if (spec.base.threads == 0 && !config::omp_threads() && !spec.workers.empty()) {
    const int most = std::max(1, std::ranges::max(spec.workers));
    spec.base.threads = std::max(1, static_cast<int>(allowed_cores().size()) / most);
  }
  return Comparison(std::move(spec), flags.again).run();
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("compare", "Train the same model under several strategies, one table at the end");
  const auto flags = std::make_shared<Flags>();
  config::add_train_flags(*command, flags->config);
  for (const char* replaced : {"--model", "--strategy", "--workers", "--resume"}) {
    command->remove_option(command->get_option(replaced));
  }
  const auto list = [&](const char* flag, auto& field, const char* help) {
    command->add_option(flag, field, help)->delimiter(',')->capture_default_str();
  };
  list("--model", flags->models, "networks to train, separated by commas; `tutti models` lists them");
  list("--strategies", flags->strategies, "names, separated by commas");
  list("--workers", flags->workers, "numbers, separated by commas");
  command
      ->add_option("--repeats", flags->repeats,
                   "runs of each, in turns; the table has the median and how far the others are from it")
      ->capture_default_str();
  command->add_flag("--again", flags->again,
                    "run also what has finished in this folder with the same settings and program");
  command->callback([flags, &action] { action = [flags] { return compare(*flags); }; });
}

}  // namespace tutti::cli
