#include "cli/host_flags.h"

#include "cli/command.h"
#include "config/environment.h"
#include "config/flags.h"

namespace tutti::cli {

void add_host_flags(CLI::App& command, HostFlags& flags) {
  auto* hosts = command.add_option("-H,--hosts", flags.hosts,
                                   "hosts and how many processes each takes, as HOST:N,...; over ssh");
  command
      .add_option("--hostfile", flags.hostfile,
                  "a file with a host a line, HOST:N or HOST slots=N max_slots=M (instead of --hosts)")
      ->excludes(hosts);
  command.add_option("--ssh-config", flags.ssh_config,
                     "a configuration file for ssh, instead of the user's own");
  command.add_option("--remote-program", flags.remote_program,
                     "the path of tutti on the other hosts; default where this one is");
}

void add_listen_flags(CLI::App& command, ListenFlags& flags) {
  command.add_option("--interface", flags.interface,
                     "network interface that ranks listen on, by name, address or network (10.0.0.0/24)");
  command.add_option("--port-range", flags.port_range, "FIRST-LAST: ports that they listen on");
}

std::vector<config::Host> hosts_of(const HostFlags& flags) {
  return config::named_hosts(flags.hosts, flags.hostfile);
}

launch::HostOptions options_of(const HostFlags& flags) {
  return {.ssh = config::find_program("ssh"),
          .ssh_config = flags.ssh_config,
          .program = flags.remote_program.empty() ? this_program() : flags.remote_program};
}

void listen_as(const ListenFlags& flags, launch::JobSpec& job) {
  const auto settings = config::join_settings();
  job.interface = flags.interface.empty() ? settings.interface : flags.interface;
  job.ports = parse_port_range(flags.port_range.empty() ? settings.port_range : flags.port_range);
}

}  // namespace tutti::cli
