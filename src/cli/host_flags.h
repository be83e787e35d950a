// The flags that name other hosts, of commands that have no other settings of a training.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "config/hosts.h"
#include "launch/hosts.h"

namespace tutti::cli {

struct HostFlags {
  std::string hosts;
  std::string hostfile;
  std::string ssh_config;
  std::string remote_program;
};

void add_host_flags(CLI::App& command, HostFlags& flags);

// None if no flag names any. Throws ConfigError.
std::vector<config::Host> hosts_of(const HostFlags& flags);
// How they are reached. Throws ConfigError if there is no ssh.
launch::HostOptions options_of(const HostFlags& flags);

}  // namespace tutti::cli
