#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "cli/command.h"
#include "cli/comparison.h"
#include "emulate/cluster.h"
#include "lab/study.h"
#include "report/differences.h"
#include "report/page.h"
#include "report/run_folder.h"

namespace tutti::cli {
namespace {

struct ReproduceFlags {
  std::string study;
  std::string out;
  bool quick = false;
  bool again = false;
};

lab::Evidence evidence_of(const Comparison& comparison) {
  lab::Evidence evidence{comparison.cells(), report::differences(comparison.folder(), comparison.cells())};
  for (auto& cell : evidence.cells) {
    if (cell.summary.is_null()) continue;
    const auto metrics = report::read_metrics(cell.folder);
    if (!metrics.is_null()) cell.summary["evaluations"] = metrics.at("evaluations");
    cell.summary["checkpoints"] = report::saved_models(cell.folder);
  }
  return evidence;
}

int conclude(const lab::Study& study, bool quick, const Comparison& comparison) {
  auto outcome = study.conclude(evidence_of(comparison));
  outcome.study = study.name;
  outcome.title = study.title;
  outcome.ran = study.ran;
  outcome.quick = quick;
  write_file_atomically(std::filesystem::path(comparison.folder()) / "study.json",
                        nlohmann::json(outcome).dump(2) + "\n");
  fmt::print("\n{}", report::render(outcome));
  for (const auto& cell : comparison.cells()) {
    const auto& wrong = cell.failure.empty() ? cell.doubt : cell.failure;
    if (!wrong.empty()) fmt::print("left out: {} {}: {}\n", cell.model, name_of(cell), wrong);
  }
  fmt::print("\nruns and metrics are in {}\nthe page is {}\n", comparison.folder(),
             report::write_page(comparison.folder()).string());
  return comparison.well() ? 0 : 1;
}

int reproduce(const ReproduceFlags& flags) {
  const auto& study = lab::find_study(flags.study);
  const auto out = flags.out.empty() ? fmt::format("runs/{}", study.name) : flags.out;
  auto runs = study.plan(flags.quick ? lab::Scale::quick : lab::Scale::full, out);
  if (std::ranges::any_of(runs, [](const auto& run) { return !run.config.emulate.empty(); })) {
    emulate::require_means();
  }
  Comparison comparison(out, std::move(runs), flags.again);
  const auto interrupted = comparison.run();
  return interrupted ? *interrupted : conclude(study, flags.quick, comparison);
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
