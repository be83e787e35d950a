#include "cli/host_flags.h"

#include "cli/command.h"
#include "config/environment.h"

namespace tutti::cli {

void add_host_flags(CLI::App& command, HostFlags& flags) {
  auto* hosts = command.add_option("-H,--hosts", flags.hosts,
                                   "hosts and how many processes each takes, as HOST:N,...; over ssh");
  command
      .add_option("--hostfile", flags.hostfile,
                  "a file with a host a line, HOST:N or HOST slots=N (instead of --hosts)")
      ->excludes(hosts);
  command.add_option("--ssh-config", flags.ssh_config,
                     "a configuration file for ssh, instead of the user's own");
  command.add_option("--remote-program", flags.remote_program,
                     "the path of tutti on the other hosts; default where this one is");
}

std::vector<config::Host> hosts_of(const HostFlags& flags) {
  return config::named_hosts(flags.hosts, flags.hostfile);
}

launch::HostOptions options_of(const HostFlags& flags) {
  return {.ssh = config::find_program("ssh"),
          .ssh_config = flags.ssh_config,
          .program = flags.remote_program.empty() ? this_program() : flags.remote_program};
}

}  // namespace tutti::cli
