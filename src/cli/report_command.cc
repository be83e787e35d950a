#include <fmt/format.h>

#include "cli/command.h"
#include "report/page.h"

namespace tutti::cli {

void add_report(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("report", "The page of a run, a comparison or a study, from its folder");
  const auto folder = std::make_shared<std::string>();
  command->add_option("folder", *folder, "of `tutti train`, `tutti compare` or `tutti reproduce`")
      ->required();
  command->callback([folder, &action] {
    action = [folder] {
      fmt::print("{}\n", report::write_page(*folder).string());
      return 0;
    };
  });
}

}  // namespace tutti::cli
