// Any program on an emulated cluster: one process on each host, told its rank as torchrun tells it.
#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "config/environment.h"
#include "emulate/cluster.h"

namespace tutti::cli {
namespace {

constexpr int kMasterPort = 29500;

struct EmulateFlags {
  std::string cluster;
  std::vector<std::string> command;
};

int emulate_command(const EmulateFlags& f) {
  const auto emulation = config::parse_emulation(f.cluster);
  if (!emulation || emulation->hosts < 1)
    throw ConfigError(fmt::format("'{}' names no cluster; it wants hosts=N,link=RATE", f.cluster));
  if (f.command.empty()) throw ConfigError("no command to run; it follows after --");
  const emulate::Cluster cluster(*emulation, emulation->hosts);
  launch::JobSpec job;
  job.workers = cluster.hosts();
  job.command = f.command;
  job.command[0] = config::find_program(f.command[0]);
  job.environment = {fmt::format("MASTER_ADDR={}", emulate::address_of(0)),
                     fmt::format("MASTER_PORT={}", kMasterPort),
                     fmt::format("GLOO_SOCKET_IFNAME={}", emulate::kInterface),
                     fmt::format("NCCL_SOCKET_IFNAME={}", emulate::kInterface)};
  const launch::Listener listener{
      [](Rank, bool is_error, const std::string& line) { print_line(is_error ? stderr : stdout, line); },
      [](Rank, const nlohmann::json&) {}};
  const auto [outcome, traffic] = cluster.run(job, listener);
  if (outcome.exit_code != 0) {
    fmt::print(stderr, "tutti: {}\n", outcome.line);
    return outcome.exit_code;
  }
  for (const auto& host : traffic.per_host) {
    fmt::print(stderr, "host {}: sent {} in {} packets, received {} in {}\n", host.host,
               human_bytes(host.bytes_sent), host.packets_sent, human_bytes(host.bytes_received),
               host.packets_received);
  }
  return 0;
}

}  // namespace

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
