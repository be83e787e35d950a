// Any program on an emulated cluster: one process on each host, told its rank as torchrun tells it.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/run_command.h"
#include "emulate/cluster.h"

namespace tutti::cli {
namespace {

constexpr int kMasterPort = 29500;

struct EmulateFlags {
  std::string cluster;
  std::vector<std::string> command;
};

void set_environment(const launch::WorkerJob& job) {
  const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
  set("RANK", std::to_string(to_int(job.rank)));
  set("WORLD_SIZE", std::to_string(job.world));
  set("LOCAL_RANK", "0");
  set("LOCAL_WORLD_SIZE", "1");
  set("MASTER_ADDR", job.payload.at("first_address"));
  set("MASTER_PORT", std::to_string(kMasterPort));
  set("GLOO_SOCKET_IFNAME", emulate::kInterface);
  set("NCCL_SOCKET_IFNAME", emulate::kInterface);
}

int emulate_command(const EmulateFlags& f) {
  const auto emulation = config::parse_emulation(f.cluster);
  if (!emulation || emulation->hosts < 1)
    throw ConfigError(fmt::format("'{}' names no cluster; it wants hosts=N,link=RATE", f.cluster));
  if (f.command.empty()) throw ConfigError("no command to run; it follows after --");
  const emulate::Cluster cluster(*emulation, emulation->hosts);
  launch::JobSpec job;
  job.program = this_program();
  job.workers = cluster.hosts();
  job.task = kCommandTask;
  job.shows_life = false;
  job.payload = {{"command", f.command}, {"first_address", emulate::address_of(0)}};
  const launch::Listener listener{
      [](Rank, bool is_error, const std::string& line) { print_line(is_error ? stderr : stdout, line); },
      [](Rank, const nlohmann::json&) {}};
  const auto [outcome, traffic] = cluster.run(job, listener);
  if (outcome.exit_code != 0) {
    fmt::print(stderr, "tutti: {}\n", outcome.line);
    return outcome.exit_code;
  }
  for (const auto& host : traffic.at("per_host")) {
    fmt::print(stderr, "host {}: sent {} in {} packets, received {} in {}\n", host.at("host").get<int>(),
               human_bytes(host.at("bytes_sent")), host.at("packets_sent").get<std::uint64_t>(),
               human_bytes(host.at("bytes_received")), host.at("packets_received").get<std::uint64_t>());
  }
  return 0;
}

}  // namespace

void become_command(const launch::WorkerJob& job) {
  set_environment(job);
  auto words = job.payload.at("command").get<std::vector<std::string>>();
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  throw ConfigError(fmt::format("cannot run '{}': {}", words[0], std::generic_category().message(errno)));
}

void add_emulate(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "emulate",
      "Run any program on an emulated cluster, one process a host, with RANK, WORLD_SIZE, MASTER_ADDR set");
  const auto flags = std::make_shared<EmulateFlags>();
  command->add_option("cluster", flags->cluster, "hosts=N,link=RATE, as for --emulate; needs root")
      ->required();
  command->add_option("command", flags->command, "after --: the program and its arguments")->required();
  command->callback([flags, &action] { action = [flags] { return emulate_command(*flags); }; });
}

}  // namespace tutti::cli
