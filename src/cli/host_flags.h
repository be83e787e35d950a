// The flags that name other hosts, and where ranks listen, of commands that have no other settings of a
// training.
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

// Where the ranks of a job listen.
struct ListenFlags {
  std::string interface;   // empty: the environment's
  std::string port_range;  // likewise
};

void add_host_flags(CLI::App& command, HostFlags& flags);
void add_listen_flags(CLI::App& command, ListenFlags& flags);

// None if no flag names any. Throws ConfigError.
std::vector<config::Host> hosts_of(const HostFlags& flags);
// How they are reached. Throws ConfigError if there is no ssh.
launch::HostOptions options_of(const HostFlags& flags);
// Lets the job's ranks listen there. Throws ConfigError.
void listen_as(const ListenFlags& flags, launch::JobSpec& job);

}  // namespace tutti::cli
