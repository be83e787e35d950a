// What runs on each host of a job on several (launch/agent.h).
#include "base/process.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/launch_command.h"
#include "config/environment.h"
#include "lab/run.h"
#include "launch/agent.h"
#include "observe/machine.h"

namespace tutti::cli {
namespace {

int be_agent() {
  std::vector<UniqueFd> keep_open;
  const auto localise = [&](launch::JobSpec& spec, int processes) {
    if (!spec.command.empty()) add_environment(spec, processes);
    if (spec.task != lab::kTrainTask) return;
    nlohmann::json& payload = spec.payload;
    // Where the launcher looks for data, and then where this host does.
    std::vector<std::filesystem::path> roots;
    for (const auto& root : payload.at(lab::kDataRoots)) roots.emplace_back(root.get<std::string>());
    for (auto& root : config::data_roots()) roots.push_back(std::move(root));
    auto setup = payload.get<train::Setup>();
    keep_open = train::localise(setup, {roots, config::cache_folder()});
    for (const UniqueFd& fd : keep_open) spec.inherit.push_back(fd.get());
    payload = setup;
  };
  const auto ssh = config::ssh_connection();
  const launch::AgentHello hello{kVersion, ssh.address, ssh.caller, static_cast<int>(allowed_cores().size()),
                                 observe::describe_machine().memory_bytes};
  return launch::run_agent(hello, this_program(), localise);
}

}  // namespace

void add_agent(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("agent", "What a launcher starts on each of several hosts");
  command->group("");
  command->callback([&action] { action = be_agent; });
}

}  // namespace tutti::cli
