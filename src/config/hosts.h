// The hosts of a job, as people name them.
#pragma once

#include <string>
#include <vector>

namespace tutti::config {

struct Host {
  std::string name;  // as ssh takes it, maybe with a user: "me@host1"
  int slots = 1;     // processes that it takes
  bool operator==(const Host&) const = default;
};

// "host1:4,host2:4"; a host without a number has one slot. Nothing for an empty text. Throws ConfigError that
// names --hosts.
std::vector<Host> parse_hosts(const std::string& text);

// A file with a host a line: "host1:4", "host1 slots=4" or "host1"; # begins a comment. As Open MPI's have
// it, max_slots=8 may follow or stand alone, which no slots may exceed. Throws ConfigError that names file
// and line.
std::vector<Host> read_hostfile(const std::string& path);

// Those of the file where one is named, else those of --hosts; that both are named is refused before, by the
// flags and by the check of a run's settings. Throws as they do.
std::vector<Host> named_hosts(const std::string& hosts, const std::string& hostfile);

// As parse_hosts reads it.
std::string text_of(const std::vector<Host>& hosts);

int slots_of(const std::vector<Host>& hosts);

}  // namespace tutti::config
