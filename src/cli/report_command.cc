#include <fmt/format.h>

#include "cli/command.h"
#include "exchange/strategy.h"
#include "report/page.h"

namespace tutti::cli {

std::filesystem::path write_page(const std::filesystem::path& folder) {
  std::vector<std::string> alone;
  for (const auto& strategy : exchange::all_strategies()) {
    if (strategy.one_worker_only) alone.push_back(strategy.name);
  }
  return report::write_page(folder, alone);
}

void add_report(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("report", "The page of a run, a comparison or a study, from its folder");
  const auto folder = std::make_shared<std::string>();
  command->add_option("folder", *folder, "of `tutti train`, `tutti compare` or `tutti reproduce`")
      ->required();
  command->callback([folder, &action] {
    action = [folder] {
      fmt::print("{}\n", write_page(*folder).string());
      return 0;
    };
  });
}

}  // namespace tutti::cli
