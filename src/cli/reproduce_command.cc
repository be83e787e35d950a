#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/joined.h"
#include "cli/live_table.h"
#include "cli/train_command.h"
#include "emulate/cluster.h"
#include "lab/study.h"

namespace tutti::cli {
namespace {

struct ReproduceFlags {
  std::string study;
  std::string out;
  bool quick = false;
  bool again = false;
};

int conclude(const lab::Study& study, lab::Scale scale, const lab::Experiment& experiment) {
  fmt::print("\n{}", report::render(lab::result_of(study, scale, experiment)));
  for (const auto& cell : experiment.cells()) {
    const auto& wrong = cell.failure.empty() ? cell.doubt : cell.failure;
    if (!wrong.empty()) fmt::print("left out: {} {}: {}\n", cell.model, name_of(cell), wrong);
  }
  fmt::print("\nruns and metrics are in {}\nthe page is {}\n", experiment.folder(),
             write_page(experiment.folder()).string());
  return experiment.well() ? 0 : 1;
}

int reproduce(const ReproduceFlags& flags) {
  require_own_launcher("reproduce");
  const auto& study = lab::find_study(flags.study);
  const auto out = flags.out.empty() ? fmt::format("runs/{}", study.name) : flags.out;
  const auto scale = flags.quick ? lab::Scale::quick : lab::Scale::full;
  auto runs = study.plan(scale, out);
  if (std::ranges::any_of(runs, [](const auto& run) { return !run.config.emulate.empty(); })) {
    emulate::require_means();
  }
  lab::Experiment experiment(out, std::move(runs), this_program(),
                             [](const config::TrainConfig& c) { return prepare_here(c); });
  const auto interrupted = run_with_table(experiment, flags.again);
  return interrupted ? *interrupted : conclude(study, scale, experiment);
}

}  // namespace

void add_reproduce(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "reproduce", "Run a study again: its tables and figures beside ours, its claims checked");
  const auto flags = std::make_shared<ReproduceFlags>();
  std::string help = "which:";
  for (const auto& study : lab::all_studies()) help += fmt::format(" {}", study.name);
  command->add_option("study", flags->study, help)->required();
  command->add_option("--out", flags->out, "folder of its runs and of the page; default runs/STUDY");
  command->add_flag("--quick", flags->quick, "a part of its runs, in minutes instead of hours");
  command->add_flag("--again", flags->again,
                    "run also what has finished in this folder with the same settings and program");
  command->callback([flags, &action] { action = [flags] { return reproduce(*flags); }; });
}

}  // namespace tutti::cli
